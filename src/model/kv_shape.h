// KV bytes a token of a model, from its config.json.
#pragma once
