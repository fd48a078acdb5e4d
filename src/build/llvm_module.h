// The emitter of one kernel's module; llvm_module.cc has its story. Internal to src/build.
#pragma once

#include <string>
#include <vector>

#include "src/build/llvm_emit.h"

namespace lw {

// The function being emitted.
struct Frame {
  llvm::Function* function = nullptr;
  llvm::Value* context = nullptr;                  // lw_context*
  llvm::Value* table = nullptr;                    // the arguments' addresses
  std::vector<llvm::Value*> bases;                 // by buffer
  std::vector<llvm::Value*> variables;             // by variable; null: not in scope
  std::vector<int> order;                          // by variable: when it was defined
  std::vector<llvm::AllocaInst*> registers;        // by register; null: not used yet
  int defined = 0;
  bool streamed = false;
  bool vnni = false;                               // LLVM may use VNNI (make_function)
  bool fenced = false;                             // has a kFence: LLVM must not know what never
                                                   // changes
};

struct Emitter {
  Emitter(const Kernel& kernel, const Target& target, llvm::Module* module);

  // Emits `int32_t name(const lw_context*, void* const*)`.
  void entry(const std::string& name, const std::vector<Stmt>& body);

  // Whether the store is to be a streaming one, given arguments aligned to 64 bytes.
  bool streams(const Stmt& s) const;

  void make_scopes();
  // The frame of a function with this body, before anything is in it.
  Frame frame_of(const std::vector<Stmt>& body) const;
  llvm::Function* make_function(llvm::StringRef name, llvm::FunctionType* type, bool exported,
                                bool vnni);
  llvm::Function* function(const std::string& name, const std::vector<Stmt>& body, bool exported);
  void open(Frame* frame, llvm::Function* function, llvm::Value* context, llvm::Value* table,
            llvm::Value* worker);
  void close(Frame* frame);

  void list(const std::vector<Stmt>& list);
  void serial_for(const Stmt& s);
  llvm::Value* chunks_of(const Stmt& s);
  void parallel_for(const Stmt& s);
  void call_body(const Stmt& s, llvm::Function* body, llvm::Value* closure);
  void branch(const Stmt& s);
  void integer(const Stmt& s);
  void op(const Stmt& s);
  void fence();
  size_t horizontals(const std::vector<Stmt>& list, size_t at);

  void define(int var, llvm::Value* value);
  llvm::Value* terms(const Affine& a);             // null where there are none
  llvm::Value* address(const Affine& a);           // i64
  llvm::Value* pointer(int buffer, const Affine& index);
  llvm::AllocaInst* slot(int reg);
  llvm::Value* get(int reg);
  void set(int reg, llvm::Value* value);

  // llvm_memory.cc
  llvm::Value* load(const Stmt& s);
  llvm::Value* load_memory(const Stmt& s, int lanes);
  llvm::Value* load_strided(const Stmt& s, int lanes);
  llvm::Value* gather(const Stmt& s, int lanes, llvm::Value* offsets);
  void store(const Stmt& s);
  llvm::Value* ramp(const Affine& index, int64_t stride, Type type, int lanes);
  llvm::Value* lane_mask(const Stmt& s, int lanes);
  llvm::Align alignment(int buffer, const Affine& index) const;
  template <class Instruction>
  Instruction* annotate(Instruction* access, int buffer);

  const Kernel& kernel;
  const Target& target;
  llvm::Module* module;
  llvm::IRBuilder<> b;
  Ops ops;
  llvm::StructType* context_type = nullptr;
  struct Aliasing {
    llvm::MDNode* own;
    llvm::MDNode* others;
  };
  std::vector<Aliasing> scopes;                    // arguments, workspace, private, packed
  std::vector<bool> argument_written;
  std::vector<int> aligned_slots;                  // arguments that are 64-byte aligned here
  bool in_prepack = false;
  Frame* frame = nullptr;
};

}  // namespace lw
