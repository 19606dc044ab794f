# Run as a script: writes OUTPUT, a C++ file in which each of FILES ("name=path", ...) is a
# std::string_view constant of NAMESPACE. Who uses it declares it extern.
file(WRITE ${OUTPUT} "#include <string_view>\n\nnamespace ${NAMESPACE} {\n\n")
foreach(entry IN LISTS FILES)
  string(REGEX MATCH "^([^=]+)=(.*)$" _ "${entry}")
  set(name ${CMAKE_MATCH_1})
  file(READ ${CMAKE_MATCH_2} bytes HEX)
  string(LENGTH "${bytes}" digits)
  math(EXPR size "${digits} / 2")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "'\\\\x\\1'," bytes "${bytes}")
  file(APPEND ${OUTPUT} "namespace {\nconstexpr char ${name}Bytes[] = {${bytes}'\\0'};\n}\n"
                        "extern const std::string_view ${name};\nconst std::string_view ${name}(${name}Bytes, ${size});\n\n")
endforeach()
file(APPEND ${OUTPUT} "}  // namespace ${NAMESPACE}\n")
