// Package cnitest has stub CNI plugins for tests: programs that keep a list of
// their calls, and can be told to fail, to hang and to print garbage.
//
//	plugins := cnitest.New(t, "bridge", "portmap")
//	plugins.On("portmap", "ADD", cnitest.Fail(11, "no ports left"))
//	... // run the code under test with plugins.Dir() as its directory of plugins
//	for _, call := range plugins.Calls() { ... }
//	if left := plugins.Held(); len(left) > 0 { ... }
//
// A stub behaves like a plugin that takes something from the host: ADD takes it,
// DEL gives it back, a second ADD and a CHECK without it fail. Held lists what is
// still taken, that is, what the code under test has leaked.
//
// Stubs are scripts for /bin/sh that need cat, rm and sleep. They work with any
// invoker, in any process. Plugins may be used from any goroutine.
package cnitest
