// y = by * x, element by element; no header is included, products are not contracted.
extern "C" __global__ void scale(const float *x, float *y, long long n, float by) {
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = by * x[i];
}
