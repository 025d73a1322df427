#include "kvferry/options.h"
namespace kvferry {
Status EngineOptions::Validate() const { return Status::Ok(); }
}  // namespace kvferry
