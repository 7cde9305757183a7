# Writes the definition of WebFiles (web_files.h): cmake -DOUTPUT=web_files.cc "-DFILES=a;b" -P embed_files.cmake
set(type_html "text/html; charset=utf-8")
set(type_css "text/css; charset=utf-8")
set(type_js "text/javascript; charset=utf-8")
set(type_svg "image/svg+xml")
set(type_jpg "image/jpeg")
set(type_png "image/png")

set(arrays)
set(table)
set(number 0)
foreach(file IN LISTS FILES)
  get_filename_component(name "${file}" NAME)
  get_filename_component(extension "${file}" LAST_EXT)
  string(SUBSTRING "${extension}" 1 -1 extension)
  if(NOT type_${extension})
    message(FATAL_ERROR "${file}: no media type is known for it")
  endif()
  file(READ "${file}" bytes HEX)
  file(SHA256 "${file}" digest)
  string(SUBSTRING "${digest}" 0 32 digest)
  string(REPEAT "[0-9a-f]" 64 line)
  string(REGEX REPLACE "(${line})" "\\1\n" bytes "${bytes}")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "\\\\x\\1" bytes "${bytes}")
  string(REPLACE "\n" "\"\n    \"" bytes "${bytes}")
  string(APPEND arrays "constexpr char kFile${number}[] =\n    \"${bytes}\";\n")
  string(APPEND table "    {\"${name}\", \"${type_${extension}}\", \"W/\\\"${digest}\\\"\", {kFile${number}, sizeof(kFile${number}) - 1}},\n")
  math(EXPR number "${number} + 1")
endforeach()
file(WRITE "${OUTPUT}" "// Written by client/web/embed_files.cmake.
#include \"client/web/web_files.h\"

namespace fovea {
namespace {

${arrays}
constexpr WebFile kFiles[] = {
${table}};

}  // namespace

std::span<const WebFile> WebFiles() { return kFiles; }

}  // namespace fovea
")
