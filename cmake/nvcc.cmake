# Finds nvcc, for what is compiled without CMake's own CUDA language: PTX for the simulator, and the CUDA device.
# LLMINFER_NVCC: the program, empty where there is none. LLMINFER_CUDA_INCLUDE: the toolkit's headers.
find_program(LLMINFER_NVCC nvcc HINTS $ENV{CUDA_PATH}/bin ${CUDAToolkit_ROOT}/bin /usr/local/cuda/bin)
if(LLMINFER_NVCC)
  get_filename_component(nvcc_real ${LLMINFER_NVCC} REALPATH)
  get_filename_component(nvcc_root ${nvcc_real}/../.. ABSOLUTE)
  find_path(LLMINFER_CUDA_INCLUDE cuda_runtime_api.h HINTS ${nvcc_root}/include ${nvcc_root}/targets/x86_64-linux/include)
endif()
if(LLMINFER_NVCC AND LLMINFER_CUDA_INCLUDE)
  set(LLMINFER_HAVE_NVCC TRUE)
else()
  set(LLMINFER_HAVE_NVCC FALSE)
endif()

# Where cuobjdump and nvdisasm are; empty where they are not.
find_program(LLMINFER_NVDISASM nvdisasm HINTS ${LLMINFER_SASS_TOOLS} $ENV{CUDA_PATH}/bin /usr/local/cuda/bin)
if(LLMINFER_NVDISASM)
  get_filename_component(LLMINFER_SASS_TOOLS ${LLMINFER_NVDISASM} DIRECTORY)
endif()

# Warnings are errors in device code and in the host code beside it.
set(LLMINFER_NVCC_FLAGS -std=c++20 -O3 -lineinfo -Werror all-warnings -Xcompiler -Wall,-Wextra
  -ccbin ${CMAKE_CXX_COMPILER})
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")  # of the toolkit's own headers, which reach the host compiler preprocessed
  list(APPEND LLMINFER_NVCC_FLAGS -Xcompiler -Wno-unused-function)
endif()

# llminfer_ptx(OUT.ptx SOURCE.cu [ARCHITECTURE 90] [flag ...])   PTX for sm_80 or another, as the simulator reads it.
function(llminfer_ptx out source)
  cmake_parse_arguments(P "" "ARCHITECTURE" "" ${ARGN})
  if(NOT P_ARCHITECTURE)
    set(P_ARCHITECTURE 80)
  endif()
  add_custom_command(OUTPUT ${out}
    COMMAND ${LLMINFER_NVCC} ${LLMINFER_NVCC_FLAGS} -arch=compute_${P_ARCHITECTURE} -ptx -MD -MF ${out}.d
      ${P_UNPARSED_ARGUMENTS} -o ${out} ${source}
    DEPENDS ${source} DEPFILE ${out}.d COMMENT "PTX of ${source}" VERBATIM)
endfunction()

# llminfer_cuda_object(OUT.o SOURCE.cu GENCODE flag ... FLAGS flag ...)   A host object with device code inside. What
# nvcc prints is in OUT.o.log.
function(llminfer_cuda_object out source)
  cmake_parse_arguments(C "" "" "GENCODE;FLAGS" ${ARGN})
  add_custom_command(OUTPUT ${out} BYPRODUCTS ${out}.log
    COMMAND ${PROJECT_SOURCE_DIR}/cmake/quiet.sh ${out}.log ${LLMINFER_NVCC} ${LLMINFER_NVCC_FLAGS} ${C_GENCODE}
      -Xcompiler -fPIC -MD -MF ${out}.d ${C_FLAGS} -c -o ${out} ${source}
    DEPENDS ${source} DEPFILE ${out}.d COMMENT "CUDA object of ${source}" VERBATIM)
endfunction()

# For the simulator: nothing but PTX of one architecture, readable.
set(LLMINFER_SIM_GENCODE -gencode arch=compute_80,code=compute_80 --no-compress)
# And of a chip with clusters, for kernels that are others there.
set(LLMINFER_SIM_GENCODE_90 ${LLMINFER_SIM_GENCODE} -gencode arch=compute_90,code=compute_90)
