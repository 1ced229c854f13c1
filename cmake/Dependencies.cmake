# ggml comes from the checkout's venv when scripts/setup has built it there, else from the system.
file(GLOB patchbay_venv_ggml ${PROJECT_SOURCE_DIR}/.venv/lib/python3*/site-packages/libggml)
list(APPEND CMAKE_PREFIX_PATH ${patchbay_venv_ggml})

# The version number matters: without one CMake takes the Python wrapper's config, whose rpath is broken.
find_package(ggml 0.20 REQUIRED CONFIG)
string(FIND "${ggml_DIR}" "${PROJECT_SOURCE_DIR}/.venv/" patchbay_ggml_in_venv)
if(patchbay_ggml_in_venv EQUAL 0)
  # The installed prefix has to run without this checkout, so it gets ggml as well.
  install(DIRECTORY ${patchbay_venv_ggml}/lib/ DESTINATION ${CMAKE_INSTALL_LIBDIR}
          FILES_MATCHING PATTERN "libggml*.so.0" PATTERN "cmake" EXCLUDE)
endif()
find_package(Threads REQUIRED)
find_package(fmt 9 REQUIRED)
find_package(spdlog REQUIRED)
find_package(OpenSSL 3.0 REQUIRED)
find_package(Boost 1.81 CONFIG REQUIRED)
find_package(tl-expected REQUIRED)
find_package(nlohmann_json 3.11 REQUIRED)
find_package(CLI11 2.1 REQUIRED)
find_package(Eigen3 3.4 REQUIRED CONFIG)
find_package(PkgConfig REQUIRED)
pkg_check_modules(PCRE2 REQUIRED IMPORTED_TARGET libpcre2-8>=10.42)
pkg_check_modules(LIBEDIT REQUIRED IMPORTED_TARGET libedit)
pkg_check_modules(CAIRO REQUIRED IMPORTED_TARGET cairo-svg cairo-png)
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash>=0.8)
