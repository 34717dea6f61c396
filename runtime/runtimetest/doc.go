// Package runtimetest is a container runtime for tests: a real gRPC server of CRI v1
// that keeps sandboxes, containers and images in memory and can be told to misbehave.
//
// It behaves as containerd does, or as another Kind: names are reserved until their
// owner is removed, a created container does not run, stopping and removing twice is no
// error, a removed sandbox takes its containers along, an unknown image is a nil image.
// It runs no processes and pulls nothing. Streams of exec, attach and port-forward are
// served by runtimetest/streaming, which is apart because it is heavy. It is not a mock:
// there is nothing to expect beforehand.
//
// The smallest use:
//
//	s := runtimetest.Start(t, runtimetest.Config{})
//	s.SetLives("app", runtimetest.Exits(time.Minute, 1), runtimetest.Life{})
//	c := s.Client(t)
//
// Here the first attempt of each container "app" exits with code 1 after a minute and
// the next ones run until they are stopped. Inject makes calls fail, hang or answer
// nonsense; Down, Forget and Up restart the runtime; Calls, Changes and WantChanges
// show what it was asked for.
//
// Time is that of package time, and without a socket nothing but channels is waited
// for, so that a whole Server works inside a testing/synctest bubble: hours of a pod's
// life pass in milliseconds. A Server is safe for use by many goroutines and needs no
// privileges.
package runtimetest
