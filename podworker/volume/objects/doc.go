// Package objects has the ConfigMaps and Secrets that the pods of a node refer to, as
// an API server has them.
//
//	store, err := objects.New(objects.Config{
//		ConfigMaps: func(ns string) objects.ConfigMaps { return client.CoreV1().ConfigMaps(ns) },
//		Secrets:    func(ns string) objects.Secrets { return client.CoreV1().Secrets(ns) },
//		Changed:    func(pods []types.UID) { … },
//	})
//	go store.Run(ctx)
//	store.Use(pod)
//	err = store.Wait(ctx, pod.UID)
//	config, err := store.ConfigMap("default", "config")
//	store.Release(pod.UID)
//
// Each object is watched by its name, which is all that the Node authorizer permits
// a node, from the first pod that refers to it to the last, and once however many
// pods there are. While the API server is away the object is as it was last known.
// What a new pod gets is never older than the pod: its Use has every object of it
// read anew. Immutable objects are not watched.
//
// # What it is not for
//
// It lists no namespaces, finds no objects that no pod refers to, and writes nothing
// to the API server or to disk.
//
// # Safety
//
// All methods may be called from several goroutines at once. The objects are shared:
// read them only. No privileges are needed but those of the client.
package objects
