#!/usr/bin/env bash
# run.sh LIBRARY TEST [ARGS...]: runs a test of the Python package, as it lies in the tree, with a built libsinter.so. It takes
# the first Python that has what the test needs: that of SINTER_VENV, of the venv in the build folder (`./dev test --python`
# makes it), or python3. 77: there is none, said why.
set -euo pipefail
library=$(realpath "$1") test=$2
shift 2
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
package=$here/../../frontend/python
build=$(dirname "$(dirname "$library")")
case $test in
  test_import) needs=json what='Python' ;;
  test_arrays) needs='numpy; assert int(numpy.__version__.split(".")[0]) >= 2' what='NumPy 2' ;;
  *) needs='torch; assert tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 14)' what='PyTorch 2.14 or later' ;;
esac
python=
for candidate in "${SINTER_VENV:-none}/bin/python" "$build/venv/bin/python" python3; do
  if "$candidate" -c "import $needs" 2>/dev/null; then python=$candidate && break; fi
done
[ -n "$python" ] || { echo "$test is skipped: no Python here has $what; ./dev test --python installs it" && exit 77; }
# The entry point, as an installed package has it.
installed=$build/python
mkdir -p "$installed/sinter_jit-0.dist-info"
printf 'Metadata-Version: 2.1\nName: sinter-jit\nVersion: 0\n' >"$installed/sinter_jit-0.dist-info/METADATA"
sed -n '/entry-points[.]torch_dynamo_backends/,/^$/p' "$package/pyproject.toml" |
  sed 's/\[project.entry-points.\(.*\)\]/[\1]/; s/"//g' >"$installed/sinter_jit-0.dist-info/entry_points.txt"
export SINTERJIT_LIBRARY=$library PYTHONPATH=$package:$here:$installed SINTER_CUDA_DRIVER=${SINTER_CUDA_DRIVER-none}
exec "$python" -W ignore "$here/$test.py" "$@"
