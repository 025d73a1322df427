// Clang's capability attributes, under names of ours; nothing for other compilers.
#pragma once

#if defined(__clang__)
#define KVFERRY_THREAD_ATTRIBUTE(x) __attribute__((x))
#else
#define KVFERRY_THREAD_ATTRIBUTE(x)
#endif

#define KVFERRY_CAPABILITY(name) KVFERRY_THREAD_ATTRIBUTE(capability(name))
#define KVFERRY_SCOPED_CAPABILITY KVFERRY_THREAD_ATTRIBUTE(scoped_lockable)
#define KVFERRY_GUARDED_BY(mutex) KVFERRY_THREAD_ATTRIBUTE(guarded_by(mutex))
// For a pointer that never changes: what it points to is guarded.
#define KVFERRY_REQUIRES(...) KVFERRY_THREAD_ATTRIBUTE(requires_capability(__VA_ARGS__))
#define KVFERRY_EXCLUDES(...) KVFERRY_THREAD_ATTRIBUTE(locks_excluded(__VA_ARGS__))
#define KVFERRY_ACQUIRE(...) KVFERRY_THREAD_ATTRIBUTE(acquire_capability(__VA_ARGS__))
#define KVFERRY_RELEASE(...) KVFERRY_THREAD_ATTRIBUTE(release_capability(__VA_ARGS__))
