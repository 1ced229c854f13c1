# What every target built here is compiled with.
add_library(patchbay_options INTERFACE)
target_include_directories(patchbay_options INTERFACE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
# Designated initialisers name the fields that matter; the others keep their defaults, which -Wextra would report.
target_compile_options(patchbay_options INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion
                                                  -Wno-missing-field-initializers)
if(PATCHBAY_WERROR)
  target_compile_options(patchbay_options INTERFACE -Werror)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # GCC 12 reports plain std::string code (s = "a") as overlapping memcpy, GCC bug 105329.
  target_compile_options(patchbay_options INTERFACE -Wno-restrict)
endif()
if(PATCHBAY_SANITIZE)
  target_compile_options(patchbay_options INTERFACE -fsanitize=${PATCHBAY_SANITIZE} -fno-sanitize-recover=all
                                                    -fno-omit-frame-pointer)
  target_link_options(patchbay_options INTERFACE -fsanitize=${PATCHBAY_SANITIZE})
  # After the others: the last one counts.
  target_compile_options(patchbay_options
                         INTERFACE "$<$<BOOL:$<TARGET_PROPERTY:PATCHBAY_LIGHT>>:-O0;-fno-sanitize=undefined>")
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    # GCC 12 misreads how Asio's coroutines get and give back their frames, and warns of fences in Asio.
    target_compile_options(patchbay_options INTERFACE -Wno-mismatched-new-delete -Wno-tsan)
  endif()
endif()

# Kernels that need an instruction set live in files of their own, named after it, so that the rest of the program runs
# anywhere. Such a file includes no header with inline functions that others share: the linker could keep its copy of them.
set(patchbay_avx2_flags -mavx2 -mfma -mf16c)
set(patchbay_avx_vnni_flags ${patchbay_avx2_flags} -mavxvnni)
set(patchbay_avx512_flags ${patchbay_avx2_flags} -mavx512f -mavx512bw -mavx512dq -mavx512vl)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # GCC 12 takes the operands that its own AVX-512 intrinsics leave undefined for ours, GCC bug 105593.
  list(APPEND patchbay_avx512_flags -Wno-maybe-uninitialized -Wno-uninitialized)
endif()
set(patchbay_avx512_vnni_flags ${patchbay_avx512_flags} -mavx512vnni)
set(patchbay_avx512_bf16_flags ${patchbay_avx512_vnni_flags} -mavx512bf16)

# patchbay_light(TARGETS...): what computes little. Instrumented assertions, coroutines and options cost the optimiser
# and UBSan more time than all of the tests take to run.
function(patchbay_light)
  set_target_properties(${ARGN} PROPERTIES PATCHBAY_LIGHT ON)
endfunction()

# patchbay_layer(NAME AFTER <layers it may include> LINKS <libraries>): one static library from src/NAME/*.cpp.
function(patchbay_layer name)
  cmake_parse_arguments(arg "" "" "AFTER;LINKS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${name}/*.cpp)
  foreach(isa avx2 avx_vnni avx512 avx512_vnni avx512_bf16)
    set(isa_sources ${sources})
    list(FILTER isa_sources INCLUDE REGEX "_${isa}\\.cpp$")
    if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
      set_source_files_properties(${isa_sources} PROPERTIES COMPILE_OPTIONS "${patchbay_${isa}_flags}")
    else()
      list(REMOVE_ITEM sources ${isa_sources})
    endif()
  endforeach()
  add_library(patchbay_${name} STATIC ${sources})
  list(TRANSFORM arg_AFTER PREPEND patchbay_)
  target_link_libraries(patchbay_${name} PUBLIC patchbay_options ${arg_AFTER} ${arg_LINKS})
  set_property(GLOBAL APPEND PROPERTY patchbay_objects $<TARGET_OBJECTS:patchbay_${name}>)
  set_property(GLOBAL APPEND PROPERTY patchbay_links ${arg_LINKS})
endfunction()

# libpatchbay: all layers in one shared library, with the public headers and a package config.
function(patchbay_library)
  get_property(objects GLOBAL PROPERTY patchbay_objects)
  get_property(links GLOBAL PROPERTY patchbay_links)
  add_library(patchbay SHARED ${objects})
  add_library(Patchbay::patchbay ALIAS patchbay)
  set_target_properties(patchbay PROPERTIES LINKER_LANGUAGE CXX VERSION ${PROJECT_VERSION}
                                            SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
  target_link_libraries(patchbay PRIVATE patchbay_options ${links})
  target_include_directories(patchbay PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                                             $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_compile_features(patchbay PUBLIC cxx_std_20)

  include(CMakePackageConfigHelpers)
  install(TARGETS patchbay EXPORT PatchbayTargets)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/patchbay DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
  set(config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/Patchbay)
  install(EXPORT PatchbayTargets NAMESPACE Patchbay:: DESTINATION ${config_dir})
  configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/PatchbayConfig.cmake.in
                                ${PROJECT_BINARY_DIR}/PatchbayConfig.cmake INSTALL_DESTINATION ${config_dir})
  write_basic_package_version_file(${PROJECT_BINARY_DIR}/PatchbayConfigVersion.cmake COMPATIBILITY SameMinorVersion)
  install(FILES ${PROJECT_BINARY_DIR}/PatchbayConfig.cmake ${PROJECT_BINARY_DIR}/PatchbayConfigVersion.cmake
          DESTINATION ${config_dir})
endfunction()
