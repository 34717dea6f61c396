package objects_test

import (
	"context"
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/nodekit-go/nodekit/podworker/volume"
	"github.com/nodekit-go/nodekit/podworker/volume/objects"
)

func Example() {
	api := newServer(&testing.T{})
	api.set("default/conf", "blue")
	told := make(chan []types.UID)
	store, err := objects.New(objects.Config{
		// With client-go: return client.CoreV1().ConfigMaps(namespace)
		ConfigMaps: func(namespace string) objects.ConfigMaps { return api.configMaps(namespace) },
		Secrets:    func(namespace string) objects.Secrets { return api.secrets(namespace) },
		Changed:    func(_ volume.Object, pods []types.UID) { told <- pods },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- store.Run(ctx) }()

	pod := podOf("u1", "conf")
	store.Use(pod) // when it is added
	conf, err := store.ConfigMap(ctx, pod, "conf")
	fmt.Println(conf.Data["v"], err)

	api.set("default/conf", "green")
	fmt.Println("changed under", <-told)
	conf, err = store.ConfigMap(ctx, pod, "conf")
	fmt.Println(conf.Data["v"], err)

	store.Release(pod.UID) // when its volumes are gone
	stop()
	fmt.Println(<-done)
	// Output:
	// blue <nil>
	// changed under [u1]
	// green <nil>
	// <nil>
}
