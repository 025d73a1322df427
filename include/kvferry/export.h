// The visibility macro of the public interface; everything else of a shared build stays hidden.
#pragma once

#define KVFERRY_EXPORT [[gnu::visibility("default")]]
