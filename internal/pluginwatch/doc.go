// Package pluginwatch registers the plugins of a node: drivers of storage (CSI), of
// devices and of dynamic resources, which put a socket into a directory and tell there
// who they are (k8s.io/kubelet/pkg/apis/pluginregistration/v1).
//
//	w, err := pluginwatch.New(pluginwatch.Config{
//		Dir:      "/var/lib/kubelet/plugins_registry",
//		Handlers: map[string]pluginwatch.Handler{pluginwatch.CSI: drivers},
//	})
//	err = w.Run(ctx)
//
// Each socket has a goroutine of its own, so that a plugin that hangs delays no other.
// It asks who is there, lets the Handler of that type decide, and tells the plugin the
// outcome; after a failure it tries again, 0.5 s later at first, 2 minutes in the end.
// A socket that is made anew is registered anew; one that is gone is not, and the
// Handler is told. When the agent ends nobody is told: the plugins are still there, and
// the next process finds their sockets.
//
// Two sockets that tell the same name are a conflict, which the first one wins as long
// as it answers. After that the other one takes its place.
package pluginwatch
