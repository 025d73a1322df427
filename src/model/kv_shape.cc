// Reads the shapes of a model's KV cache out of its config.json.
#include "model/kv_shape.h"
