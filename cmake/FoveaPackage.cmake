# `cpack --config build/cpu/CPackConfig.cmake` (make deb): build/cpu/fovea_VERSION_amd64.deb, what FoveaInstall.cmake installs below
# /usr, with a systemd unit, its config file, and what Debian wants to know.
set(debian "${CMAKE_SOURCE_DIR}/deploy/debian")
set(only_debian COMPONENT debian EXCLUDE_FROM_ALL)
install(FILES "${debian}/fovea-server.service" DESTINATION /lib/systemd/system ${only_debian})
install(FILES "${debian}/server.toml" DESTINATION /etc/fovea ${only_debian})
install(FILES "${debian}/copyright" DESTINATION share/doc/fovea ${only_debian})
install(FILES "${debian}/lintian-overrides" DESTINATION share/lintian/overrides RENAME fovea ${only_debian})
install(CODE "
  set(doc \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/share/doc/fovea\")
  file(MAKE_DIRECTORY \"\${doc}\")
  execute_process(COMMAND gzip -9nc \"${debian}/changelog\" OUTPUT_FILE \"\${doc}/changelog.gz\" COMMAND_ERROR_IS_FATAL ANY)
  file(CHMOD \"\${doc}/changelog.gz\" PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)"
  ${only_debian})

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME fovea)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "inference server for vision transformers")
set(CPACK_PACKAGE_DESCRIPTION
  "Fovea serves vision transformers over gRPC and HTTP: classifiers, detectors and
segmenters with exchangeable attention, and tells what their attention costs.
The package holds the server, the command fovea, LibTorch's libraries for the
CPU and small models to begin with.")
set(FOVEA_PACKAGE_CONTACT "The Fovea authors <fovea@packages.invalid>" CACHE STRING "Who answers for the package that is built")
set(CPACK_PACKAGE_CONTACT "${FOVEA_PACKAGE_CONTACT}")
set(CPACK_COMPONENTS_ALL Unspecified debian)
set(CPACK_COMPONENTS_GROUPING ALL_COMPONENTS_IN_ONE)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_SET_DESTDIR ON)  # the unit and the config file lie outside of the prefix
set(CPACK_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_PACKAGE_NAME fovea)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_COMPRESSION_TYPE gzip)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS "${CMAKE_BINARY_DIR}/lib" "${CMAKE_BINARY_DIR}/lib/torch")
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA
  "${debian}/conffiles" "${debian}/postinst" "${debian}/prerm" "${debian}/postrm")
include(CPack)
