// Kernels that nobody has verified, before they run here or are given away.
//
// The record of exactly a task was verified when it was measured. What a lower rung of the ladder
// gives was adapted to this task, or derived for it, and has never run. Here it is built and run in
// a worker process (measure/local.h) first, and judged by the oracles that judge candidates: there
// it may crash, hang, write outside or be wrong without harm. That takes tenths of a second.
//
//   std::vector<std::string> notes;
//   ASSIGN_OR_RETURN(LookupAnswer answer, look_up(task, *make_store_source(*store)));
//   ASSIGN_OR_RETURN(Choice choice, checked(task, answer, &notes));
//   ASSIGN_OR_RETURN(std::unique_ptr<Executable> kernel, Executable::create(task, choice));
#pragma once

#include <string>
#include <vector>

#include "src/api/lookup.h"

namespace lw {

// Of exactly its task, with its code generator.
bool is_verified(const Choice& choice);

// OK: it ran, and both oracles agreed with it. kAborted says what it did instead; kNotFound: nothing
// here can run it (find_device); kUnavailable: the machine was disturbed; others as make_measurer's.
// The calling thread must not be one of many.
absl::Status check_in_worker(const Task& task, const Choice& choice);

// The ladder's answer if it is verified or passes the check, else the zero-trial schedule if that
// does. `notes` says what was passed over, and why. kAborted: neither passed. Otherwise errors of
// default_answer and check_in_worker.
absl::StatusOr<Choice> checked(const Task& task, const LookupAnswer& answer,
                               std::vector<std::string>* notes);

}  // namespace lw
