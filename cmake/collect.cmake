# Presence of a file is its registration: these functions generate tables from folders, so there is
# no list to keep and nothing a static library's linker could drop.

# collect(VAR FOLDER SIGNATURE TYPE TABLE): for each FOLDER/NAME.cc declares SIGNATURE with %NAME%
# replaced (namespace lw) and generates `const std::vector<const TYPE*>& lw::TABLE()`, sorted by name.
function(collect variable folder signature type table)
  file(GLOB files CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${folder}/*.cc)
  list(SORT files)
  set(declarations "")
  set(entries "")
  foreach(file ${files})
    get_filename_component(name ${file} NAME_WE)
    string(REPLACE "%NAME%" "${name}" declaration "${signature}")
    string(APPEND declarations "${declaration};\n")
    string(APPEND entries "      &${name}(),\n")
  endforeach()
  get_filename_component(up ${folder} DIRECTORY)
  file(GLOB header ${CMAKE_SOURCE_DIR}/${up}/steps.h)
  set(output ${CMAKE_BINARY_DIR}/generated/${table}.cc)
  file(CONFIGURE OUTPUT ${output} CONTENT
"#include <vector>
#include \"${up}/steps.h\"
namespace lw {
${declarations}
const std::vector<const ${type}*>& ${table}() {
  static const std::vector<const ${type}*> table = {
${entries}  };
  return table;
}
}  // namespace lw
" @ONLY)
  set(${variable} ${output} PARENT_SCOPE)
endfunction()

# embed_texts(VAR FOLDER PATTERN FUNCTION): compiles the files' texts in as
# `const std::vector<std::pair<const char*, const char*>>& lw::FUNCTION()` (file name, text).
function(embed_texts variable folder pattern function)
  file(GLOB files CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${folder}/${pattern})
  list(SORT files)
  set(entries "")
  foreach(file ${files})
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
    get_filename_component(name ${file} NAME)
    file(READ ${file} text)
    string(APPEND entries "      {\"${name}\", R\"lw_text(${text})lw_text\"},\n")
  endforeach()
  set(output ${CMAKE_BINARY_DIR}/generated/${function}.cc)
  file(GENERATE OUTPUT ${output} CONTENT
"#include <utility>
#include <vector>
namespace lw {
const std::vector<std::pair<const char*, const char*>>& ${function}() {
  static const std::vector<std::pair<const char*, const char*>> table = {
${entries}  };
  return table;
}
}  // namespace lw
")
  set(${variable} ${output} PARENT_SCOPE)
endfunction()
