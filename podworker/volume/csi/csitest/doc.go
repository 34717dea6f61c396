// Package csitest is a CSI driver for tests: its volumes are directories that it binds to
// where they are wanted, and it can be told to misbehave.
//
//	d, err := csitest.Start(csitest.Config{Dir: dir, Registry: filepath.Join(root, "plugins_registry")})
//	defer d.Stop()
//	d.Inject("NodePublishVolume", csitest.Hang, 1) // the next one hangs
//	…
//	for _, c := range d.Calls() { … }
//
// It serves CSI and, for who watches plugins, the registration of them, each over a real
// unix socket. Beside what it is told to do wrong it behaves like a good driver: calls
// may be repeated, and it refuses what CSI forbids. What an agent does wrong it notes:
// see [Driver.Misuse].
//
// Mounts are real with the zero Config, which needs CAP_SYS_ADMIN and, in a test, a mount
// namespace. With a [Table] they are entries in memory, and no privileges are needed.
//
// A Driver may be used by several goroutines.
package csitest
