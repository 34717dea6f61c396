// Package podspec turns a pod into the configurations a container runtime wants:
// one for its sandbox, one for each run of a container.
//
// Everything here is pure: a function of the pod, of [Node] and of what is known
// at that moment ([Sandbox], [Container]). Directories and files a configuration
// relies on are wishes, returned as [Path] values; package podsync makes them.
//
//	for _, p := range podspec.Check(pod, podspec.Options{}) {
//		fmt.Println(p) // spec.hostUsers: user namespaces are not supported
//	}
//	sandbox, err := podspec.Sandbox(pod, node, podspec.SandboxRun{})
//	run, err := podspec.Container(pod, &pod.Spec.Containers[0], node, podspec.Run{})
//
// # Fail closed
//
// [Check] knows every field of a pod: honoured, accepted with a warning, refused, or
// somebody else's. Some are honoured only by agents that do their part, see [Ability]. A
// field it does not know refuses the pod, so that nothing a user wrote is ignored in
// silence. Call it before anything else; the other functions expect
// a pod that passed.
//
// # What it is not for
//
// It does not validate what an API server validates, such as the syntax of names.
// It does not create, mount or chown anything, and it asks no runtime.
//
// # Safety
//
// All functions may be called from several goroutines at once; they do not change
// their arguments. No privileges are needed.
package podspec
