/* test_emulated_graphs.c: the emulated driver's captures and graphs: what is captured does not run, what a captured
 * stream does not take is refused as a driver does, and an exec runs what its nodes were last given. */
#include "tests/cuda/emulated_code.h"
#include "tests/cuda/emulated_control.h"
#include "tests/unit/suite.h"

static const char *const source = "extern \"C\" __global__ void add(int *x, int by) { x[threadIdx.x] += by; }\n"
                                  "extern \"C\" __global__ void twice(int *x) { x[threadIdx.x] *= 2; }\n";
enum { N = 4 };

static CuFunction add, twice;
static CuAddress x;

static void begin_device(void) {
    open_emulated();
    add = function_of(source, "add"), twice = function_of(source, "twice");
    x = device_copy((int[N]){1, 2, 3, 4}, N * sizeof(int));
}

static void expect_first(int value) {
    int now[N] = {0};
    ck_assert_int_eq(read_back(now, x, sizeof now), CU_success);
    ck_assert_int_eq(now[0], value);
}

static CuGraph capture_both(int by) {
    CuGraph graph;
    ck_assert_int_eq(cu.StreamBeginCapture(stream, CU_capture_thread_local), CU_success);
    ck_assert_int_eq(LAUNCH(add, 1, N, &x, &by), CU_success);
    ck_assert_int_eq(LAUNCH(twice, 1, N, &x), CU_success);
    ck_assert_int_eq(cu.StreamEndCapture(stream, &graph), CU_success);
    return graph;
}

START_TEST(what_is_captured_runs_when_its_graph_is_launched) {
    begin_device();
    CuGraphExec exec;
    size_t n = 0;
    const CuGraph graph = capture_both(10);
    expect_first(1);
    ck_assert_int_eq(cu.GraphGetNodes(graph, NULL, &n), CU_success);
    ck_assert_int_eq(n, 2);
    ck_assert_int_eq(cu.GraphInstantiateWithFlags(&exec, graph, 0), CU_success);
    ck_assert_int_eq(cu.GraphDestroy(graph), CU_success);
    ck_assert_int_eq(cu.GraphLaunch(exec, stream), CU_success);
    expect_first(22);
    ck_assert_int_eq(cu.GraphLaunch(exec, stream), CU_success);
    expect_first(64);
    ck_assert_int_eq(cu.GraphExecDestroy(exec), CU_success);
    ck_assert_int_ne(cu.GraphLaunch(exec, stream), CU_success);
}
END_TEST

START_TEST(nodes_can_be_given_other_arguments) {
    begin_device();
    CuGraphExec exec;
    CuGraphNode nodes[2];
    CuGraphUpdate update;
    size_t n = 2;
    int by = 1;
    const CuGraph graph = capture_both(10), other = capture_both(5);
    ck_assert_int_eq(cu.GraphInstantiateWithFlags(&exec, graph, 0), CU_success);
    ck_assert_int_eq(cu.GraphGetNodes(graph, nodes, &n), CU_success);
    CuKernelNode node = {.func = add,
                         .gridDimX = 1,
                         .gridDimY = 1,
                         .gridDimZ = 1,
                         .blockDimX = N,
                         .blockDimY = 1,
                         .blockDimZ = 1,
                         .kernelParams = (void *[]){&x, &by}};
    ck_assert_int_eq(cu.GraphExecKernelNodeSetParams(exec, nodes[0], &node), CU_success);
    by = 99; /* they were copied */
    cu.GraphLaunch(exec, stream);
    expect_first(4);
    node.func = twice;
    ck_assert_int_eq(cu.GraphExecKernelNodeSetParams(exec, nodes[0], &node), CU_invalid_value);
    ck_assert_int_eq(cu.GraphExecUpdate(exec, other, &update), CU_success);
    cu.GraphLaunch(exec, stream);
    expect_first(18);
    CuGraph shorter;
    cu.StreamBeginCapture(stream, CU_capture_thread_local);
    LAUNCH(twice, 1, N, &x);
    cu.StreamEndCapture(stream, &shorter);
    ck_assert_int_eq(cu.GraphExecUpdate(exec, shorter, &update), CU_graph_update_failure);
}
END_TEST

typedef CuResult IllegalCall(void);
static CuResult waits(void) { return cu.StreamSynchronize(stream); }
static CuResult waits_for_all(void) { return cu.CtxSynchronize(); }
static CuResult allocates(void) { return cu.MemAlloc(&(CuAddress){0}, 4); }
static CuResult frees(void) { return cu.MemFree(x); }
static CuResult asks(void) { return cu.StreamQuery(stream); }
static CuResult copies(void) { return cu.MemcpyHtoDAsync(x, &(int){1}, 4, stream); }
static CuResult reads(void) { return cu.MemcpyDtoHAsync(&(int){1}, x, 4, stream); }

START_TEST(what_may_wait_ends_a_capture) {
    static IllegalCall *const calls[] = {waits, waits_for_all, allocates, frees, asks, copies, reads};
    begin_device();
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        CuGraph graph;
        CuCaptureStatus status;
        const CuGraphNode *last;
        size_t n;
        ck_assert_int_eq(cu.StreamBeginCapture(stream, CU_capture_thread_local), CU_success);
        ck_assert_int_eq(LAUNCH(twice, 1, N, &x), CU_success);
        ck_assert_msg(calls[i]() == CU_capture_unsupported, "call %zu", i);
        ck_assert_int_eq(LAUNCH(twice, 1, N, &x), CU_capture_invalidated);
        ck_assert_int_eq(cu.StreamGetCaptureInfo(stream, &status, NULL, NULL, &last, &n), CU_success);
        ck_assert_int_eq(status, 2);
        ck_assert_int_eq(cu.StreamEndCapture(stream, &graph), CU_capture_invalidated);
        ck_assert_ptr_null(graph);
    }
    expect_first(1); /* nothing ran, and the stream goes on */
}
END_TEST

/* An exec runs once at a time: what is launched in another stream waits for it. */
START_TEST(launches_of_one_exec_are_ordered) {
    begin_device();
    CuStream other;
    CuGraphExec exec;
    ck_assert_int_eq(cu.StreamCreate(&other, CU_stream_non_blocking), CU_success);
    ck_assert_int_eq(cu.StreamSynchronize(stream), CU_success);
    const CuGraph graph = capture_both(1);
    cu.GraphInstantiateWithFlags(&exec, graph, 0);
    ck_assert_int_eq(cu.GraphLaunch(exec, stream), CU_success);
    ck_assert_int_eq(cu.GraphLaunch(exec, other), CU_success);
    ck_assert_int_eq(cu.StreamSynchronize(other), CU_success);
    expect_first(10);
}
END_TEST

int main(void) {
    if (lacks_compiler()) return skip_without_compiler();
    TCase *const tests = tcase_create("emulated_graphs");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, what_is_captured_runs_when_its_graph_is_launched);
    tcase_add_test(tests, nodes_can_be_given_other_arguments);
    tcase_add_test(tests, what_may_wait_ends_a_capture);
    tcase_add_test(tests, launches_of_one_exec_are_ordered);
    return suite_run("emulated_graphs", tests);
}
