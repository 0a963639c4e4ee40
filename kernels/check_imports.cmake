# Fails when an object of kernels/cpu, or the code that a bitcode module becomes, imports more than memcpy, memmove and
# memset: no libm, no compiler-rt [semantics B4]. The level's tables refer to one another.
foreach(file ${FILES})
  if(file MATCHES "[.]c[.]o$") # what the project's compiler made may use libc
    continue()
  endif()
  if(file MATCHES "_(v[234])[.]bc$")
    set(object ${file}.o)
    execute_process(COMMAND ${CLANG} -Wno-override-module -O1 -march=x86-64-${CMAKE_MATCH_1} -c ${file} -o ${object}
      COMMAND_ERROR_IS_FATAL ANY)
    set(file ${object})
  endif()
  execute_process(COMMAND ${NM} -u ${file} OUTPUT_VARIABLE text COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "[A-Za-z_][A-Za-z0-9_.]*\n" symbols "${text}")
  foreach(symbol ${symbols})
    string(STRIP ${symbol} symbol)
    if(NOT symbol MATCHES "^(memcpy|memmove|memset|kernel_table_v[234]|_GLOBAL_OFFSET_TABLE_)$")
      message(SEND_ERROR "${file} imports ${symbol}")
    endif()
  endforeach()
endforeach()
