# packages.cmake: what `cpack -G DEB` makes of the installation, by its components (the root's CMakeLists.txt includes it
# last). For a distribution's folders the build is configured with CMAKE_INSTALL_PREFIX=/usr.
#
#   libsinter0     libsinter.so.0, and in its private folder the LLVM module
#   libsinter-dev  headers, what pkg-config and CMake find, examples
#   sinter         the tool, its manual page and completion, the samples that it starts
set(SINTER_MAINTAINER "Sinter maintainers <maintainers@sinter.example>" CACHE STRING "who packages are from")
set(debian_version ${PROJECT_VERSION}-1)

# What each has of its own in its folder of documents: the licences of all that is in it, and what has changed.
file(READ ${CMAKE_CURRENT_LIST_DIR}/copyright copyright)
if(SINTER_LLVM_LICENSE)
  file(READ ${SINTER_LLVM_LICENSE} llvm_copyright)
endif()
string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC) # SOURCE_DATE_EPOCH, where that is set
find_program(SINTER_GZIP gzip)
foreach(package libsinter0 libsinter-dev sinter)
  set(texts ${PROJECT_BINARY_DIR}/generated/debian/${package})
  set(text "${copyright}")
  if(package STREQUAL libsinter0 AND llvm_copyright)
    string(APPEND text "\nThe LLVM module, libsinter-llvm.so, has parts of LLVM inside. What LLVM's package says of them:\n\n"
      "${llvm_copyright}")
  endif()
  file(WRITE ${texts}/copyright "${text}")
  file(WRITE ${texts}/changelog.Debian "${package} (${debian_version}) unstable; urgency=medium\n\n"
    "  * Version ${PROJECT_VERSION}.\n\n -- ${SINTER_MAINTAINER}  ${date}\n")
  set(made ${texts}/copyright)
  if(SINTER_GZIP)
    execute_process(COMMAND ${SINTER_GZIP} -9nf ${texts}/changelog.Debian COMMAND_ERROR_IS_FATAL ANY)
    list(APPEND made ${texts}/changelog.Debian.gz)
  endif()
  install(FILES ${made} DESTINATION share/doc/${package} COMPONENT ${package} EXCLUDE_FROM_ALL)
  if(EXISTS ${CMAKE_CURRENT_LIST_DIR}/${package}.overrides)
    install(FILES ${CMAKE_CURRENT_LIST_DIR}/${package}.overrides DESTINATION share/lintian/overrides RENAME ${package}
      COMPONENT ${package} EXCLUDE_FROM_ALL)
  endif()
endforeach()

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME sinter)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_CONTACT ${SINTER_MAINTAINER})
set(CPACK_COMPONENTS_ALL libsinter0 libsinter-dev sinter)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ
  WORLD_EXECUTE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)

# What programs and the module need is asked of dpkg-shlibdeps; libsinter.so.0, which samples need, is of this build.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${CMAKE_LIBRARY_OUTPUT_DIRECTORY})
set(control ${PROJECT_BINARY_DIR}/generated/debian)
file(WRITE ${control}/shlibs "libsinter 0 libsinter0 (>= ${PROJECT_VERSION})\n")
file(WRITE ${control}/triggers "activate-noawait ldconfig\n")
set(CPACK_DEBIAN_LIBSINTER0_PACKAGE_CONTROL_EXTRA ${control}/shlibs ${control}/triggers)

# The manual page of a package is compressed.
if(SINTER_TOOL AND SINTER_GZIP)
  install(CODE "execute_process(COMMAND ${SINTER_GZIP} -9nf
    \$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_MANDIR}/man1/sinter.1 COMMAND_ERROR_IS_FATAL ANY)"
    COMPONENT sinter EXCLUDE_FROM_ALL)
endif()

# package_is(PACKAGE SECTION PART SENTENCE): its section and what is said of it; the others need the library.
function(package_is package section part sentence)
  string(TOUPPER ${package} key)
  set(CPACK_DEBIAN_${key}_PACKAGE_NAME ${package} PARENT_SCOPE)
  set(CPACK_DEBIAN_${key}_PACKAGE_SECTION ${section} PARENT_SCOPE)
  set(CPACK_DEBIAN_${key}_DESCRIPTION "JIT graph compiler with eager fallback (${part})
Sinter runs tensor programs eagerly, or compiles functions of them just
in time for CPU or GPU, with the same bits.
.
${sentence}" PARENT_SCOPE)
  if(NOT package STREQUAL libsinter0)
    set(CPACK_DEBIAN_${key}_PACKAGE_DEPENDS "libsinter0 (= ${debian_version})" PARENT_SCOPE)
  endif()
endfunction()
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "") # each has its own
package_is(libsinter0 libs library "This is the library, with the module that generates code by LLVM.")
package_is(libsinter-dev libdevel "development files" "These are the headers, and what pkg-config and CMake find.")
package_is(sinter devel tool "This is the command line tool, with samples that it runs.")
include(CPack)
