// Package streaming serves the streams of a runtimetest.Server: exec, attach and
// port-forward over SPDY and WebSocket, by k8s.io/cri-streaming, as runtimes do. It is
// apart from runtimetest because most tests do without, and it is heavy.
//
//	s := runtimetest.StartUnix(t, runtimetest.Config{})
//	streaming.Start(t, s)
//	// Exec, Attach and PortForward of s now answer URLs that work.
//
// What a command does is Config.Exec of the server, what a container writes its Life, what
// a port answers Config.Forward. Streams are real connections on 127.0.0.1, so they do not
// work inside a testing/synctest bubble. No privileges are needed; everybody on the machine
// who learns a URL can use it once.
package streaming
