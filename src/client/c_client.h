// The C interface's client. Internal to src/client.
#pragma once

#include <memory>

#include "loopwright/client.h"

struct loopwright_client {
  std::unique_ptr<lw::ScheduleClient> client;
};
