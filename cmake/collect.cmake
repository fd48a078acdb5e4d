# Presence of a file is its registration: these functions generate tables from folders, so there is
# no list to keep and nothing a static library's linker could drop.

# collect(VAR FOLDERS HEADER TYPE TABLE [SUFFIX]): for each NAME.cc of the folders declares
# `const TYPE& NAMESUFFIX()` in TYPE's namespace and generates there
# `const std::vector<const TYPE*>& TABLE()`, sorted by folder and name; HEADER declares both.
function(collect variable folders header type table)
  list(TRANSFORM folders PREPEND ${CMAKE_SOURCE_DIR}/)
  list(TRANSFORM folders APPEND /*.cc)
  file(GLOB files CONFIGURE_DEPENDS ${folders})
  list(SORT files)
  set(functions "")
  foreach(file ${files})
    get_filename_component(name ${file} NAME_WE)
    list(APPEND functions ${name}${ARGN})
  endforeach()
  generate_table(${table} ${header} ${type} ${functions})
  set(${variable} ${output} PARENT_SCOPE)
endfunction()

# collect_families(VAR FOLDER HEADER TYPE TABLE): the same of each FOLDER/NAME/family.cc, which has
# `const TYPE& NAME_family()`.
function(collect_families variable folder header type table)
  file(GLOB files CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${folder}/*/family.cc)
  list(SORT files)
  set(functions "")
  foreach(file ${files})
    get_filename_component(family ${file} DIRECTORY)
    get_filename_component(name ${family} NAME)
    list(APPEND functions ${name}_family)
  endforeach()
  generate_table(${table} ${header} ${type} ${functions})
  set(${variable} ${output} PARENT_SCOPE)
endfunction()

# What both generate, of the functions that are named; `output` is the file.
function(generate_table table header type)
  string(REGEX REPLACE "::[^:]*$" "" namespace "${type}")
  set(declarations "")
  set(entries "")
  foreach(function ${ARGN})
    string(APPEND declarations "const ${type}& ${function}();\n")
    string(APPEND entries "      &${function}(),\n")
  endforeach()
  set(output ${CMAKE_BINARY_DIR}/generated/${table}.cc)
  file(CONFIGURE OUTPUT ${output} CONTENT
"#include <vector>
#include \"${header}\"
namespace ${namespace} {
${declarations}
const std::vector<const ${type}*>& ${table}() {
  static const std::vector<const ${type}*> table = {
${entries}  };
  return table;
}
}  // namespace ${namespace}
" @ONLY)
  set(output ${output} PARENT_SCOPE)
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

# embed_models(VAR): compiles each cost_model/FAMILY/shipped.model in, as
# `const std::vector<std::pair<std::string_view, std::string_view>>& lw::shipped_model_files()`
# (family, bytes).
function(embed_models variable)
  file(GLOB files CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/cost_model/*/shipped.model)
  list(SORT files)
  set(symbols "")
  set(entries "")
  foreach(file ${files})
    get_filename_component(family ${file} DIRECTORY)
    get_filename_component(family ${family} NAME)
    string(APPEND symbols "EMBED(${family}, \"${file}\")\n")
    string(APPEND entries "      {\"${family}\", {${family}_begin, ${family}_end}},\n")
  endforeach()
  set(output ${CMAKE_BINARY_DIR}/generated/shipped_model_files.cc)
  file(CONFIGURE OUTPUT ${output} CONTENT
"#include <string_view>
#include <utility>
#include <vector>
#define EMBED(name, file)                                                        \\
  asm(\".section .rodata\\n.balign 8\\n\"                                          \\
      \".globl lw_model_\" #name \"_begin\\n.hidden lw_model_\" #name \"_begin\\n\"      \\
      \".globl lw_model_\" #name \"_end\\n.hidden lw_model_\" #name \"_end\\n\"          \\
      \"lw_model_\" #name \"_begin:\\n.incbin \\\"\" file \"\\\"\\n\"                      \\
      \"lw_model_\" #name \"_end:\\n.byte 0\\n.text\\n\");                            \\
  extern \"C\" __attribute__((visibility(\"hidden\"))) const char name##_begin[]    \\
      asm(\"lw_model_\" #name \"_begin\");                                          \\
  extern \"C\" __attribute__((visibility(\"hidden\"))) const char name##_end[]      \\
      asm(\"lw_model_\" #name \"_end\");
${symbols}
namespace lw {
const std::vector<std::pair<std::string_view, std::string_view>>& shipped_model_files() {
  static const std::vector<std::pair<std::string_view, std::string_view>> table = {
${entries}  };
  return table;
}
}  // namespace lw
" @ONLY)
  set_source_files_properties(${output} PROPERTIES OBJECT_DEPENDS "${files}")
  set(${variable} ${output} PARENT_SCOPE)
endfunction()
