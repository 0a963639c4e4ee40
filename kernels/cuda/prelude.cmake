# Writes OUT: the text before every CUDA program, made of the CPU's primitives (FROM is the source folder). Comments,
# includes and guards go: a program is one text.
function(append file)
  file(READ ${FROM}/kernels/${file} part)
  string(REGEX REPLACE "/\\*([^*]|\\*+[^*/])*\\*+/" "" part "${part}")
  string(REGEX REPLACE "\n#endif\n+$" "\n" part "${part}")
  string(REGEX REPLACE "\n#(include|ifndef SINTER|define SINTER)[^\n]*" "" part "\n${part}")
  string(REGEX REPLACE "[ \t]+\n" "\n" part "${part}")
  string(REGEX REPLACE "\n\n+" "\n" part "${part}")
  string(REGEX REPLACE " +" " " part "${part}")
  file(APPEND ${OUT} "${part}")
endfunction()
file(WRITE ${OUT} "")
foreach(file cuda/scalar.cuh cpu/convert.h cpu/math_f64.h cpu/math_turn.h cpu/math_pow.h cpu/math_f32.h cpu/prims.h
    cuda/reduce.cuh)
  append(${file})
endforeach()
