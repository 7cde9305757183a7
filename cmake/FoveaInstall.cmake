# `cmake --install build/release --prefix ANY`: a tree that can be moved, is never written to, and needs no checkout, .venv
# or home. Programs find their libraries relative to themselves; what Debian packages hold stays where Debian has it.
#   bin/               fovea-server, fovea and what `fovea` runs
#   lib/fovea/         our libraries and LibTorch's; a folder of its own, because LibTorch's libgomp is not for other programs
#   share/fovea/       models, proto, examples
#   share/fovea/deploy/  what operators use: rules and alerts, dashboards, manifests, proxies, and a unit with its config file
#   share/             manual pages, completion of bash, zsh and fish
# What only a Debian package has (the unit in its place, /etc/fovea) is of the component `debian`: FoveaPackage.cmake.

# Whatever the umask is, others may enter the folders that are made here; those that are there stay as they are.
install(CODE [[
  set(made)
  foreach(folder "" /bin /lib /share /share/doc)
    if(NOT EXISTS "$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}${folder}")
      list(APPEND made "$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}${folder}")
    endif()
  endforeach()]])

set(libraries fovea_kernels fovea_models fovea_proto)
install(TARGETS fovea-server fovea fovea-check fovea-kernels fovea-quantize fovea-train fovea-zoo RUNTIME DESTINATION bin)
install(TARGETS ${libraries} LIBRARY DESTINATION lib/fovea)
set_target_properties(${libraries} PROPERTIES INSTALL_RPATH "$ORIGIN")
if(FOVEA_TESTS)  # it is the tests' simulation of the scheduler
  install(TARGETS fovea-capacity RUNTIME DESTINATION bin)
endif()

# FOVEA_INSTALL_LINKS in the environment: hard links where they can be had, for tests. Not for a tree that is kept: its
# owner and permissions would be those of .venv's files.
install(CODE "
  set(libraries \"${FOVEA_TORCH_RUNTIME}\")
  set(folder \"\${CMAKE_INSTALL_PREFIX}/lib/fovea\")
  if(\"\$ENV{FOVEA_INSTALL_LINKS}\")
    foreach(library \${libraries})
      get_filename_component(name \"\${library}\" NAME)
      file(CREATE_LINK \"\${library}\" \"\$ENV{DESTDIR}\${folder}/\${name}\" COPY_ON_ERROR)
    endforeach()
  else()
    file(INSTALL \${libraries} DESTINATION \"\${folder}\")
  endif()")

install(DIRECTORY model_zoo/demo/ DESTINATION share/fovea/models)
install(DIRECTORY proto/ DESTINATION share/fovea/proto FILES_MATCHING PATTERN "*.proto")
file(GLOB examples client/examples/*.jpg client/examples/*.png)
install(FILES ${examples} DESTINATION share/fovea/examples)
install(DIRECTORY client/examples/scenes DESTINATION share/fovea/examples)
install(FILES deploy/prometheus/alerts.yml deploy/prometheus/prometheus.yml deploy/prometheus/recording_rules.yml
        DESTINATION share/fovea/deploy/prometheus)
install(DIRECTORY deploy/grafana/dashboards deploy/grafana/provisioning DESTINATION share/fovea/deploy/grafana)
install(DIRECTORY deploy/kubernetes deploy/proxies DESTINATION share/fovea/deploy)
install(FILES LICENSE DESTINATION share/doc/fovea COMPONENT licence)  # the package has `copyright`
# The unit and its config file, which name the place of the tree. (The package has them where they belong.)
install(CODE "
  foreach(file fovea-server.service server.toml)
    set(installed \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/share/fovea/deploy/systemd/\${file}\")
    file(READ \"${CMAKE_SOURCE_DIR}/deploy/debian/\${file}\" text)
    string(REPLACE /usr/ \"\${CMAKE_INSTALL_PREFIX}/\" text \"\${text}\")
    file(WRITE \"\${installed}\" \"\${text}\")
    file(CHMOD \"\${installed}\" PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
  endforeach()"
  COMPONENT unit)
install(DIRECTORY "${CMAKE_BINARY_DIR}/documents/" DESTINATION share)
install(CODE [[
  set(open OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
  # (The package takes no licence from here, and has no share/doc yet.)
  foreach(folder ${made})
    if(EXISTS "${folder}")
      file(CHMOD "${folder}" PERMISSIONS ${open})
    endif()
  endforeach()
  foreach(folder lib/fovea share/fovea share/doc/fovea share/man share/bash-completion share/zsh share/fish)
    set(folder "$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}/${folder}")
    if(EXISTS "${folder}")
      file(CHMOD_RECURSE "${folder}" DIRECTORY_PERMISSIONS ${open})
    endif()
  endforeach()]])
