# find_package(sinter): the target sinter::sinter, for C and C++.
include(${CMAKE_CURRENT_LIST_DIR}/sinter-targets.cmake)
