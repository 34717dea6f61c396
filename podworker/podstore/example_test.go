package podstore_test

import (
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodekit-go/nodekit/podworker/podstore"
)

func Example() {
	dir, err := os.MkdirTemp("", "pod-store-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)

	store, err := podstore.Open(podstore.Config{Dir: dir})
	if err != nil {
		fmt.Println(err) // some entries are damaged; store can be used unless it is nil
	}
	set := []*corev1.Pod{newPod("web")} // from the API server
	if err := store.Replace(set); err != nil {
		fmt.Println(err)
	}
	now := time.Now()
	if err := store.Contact(now); err != nil {
		fmt.Println(err)
	}

	// The machine reboots, and the API server does not answer.
	store, err = podstore.Open(podstore.Config{Dir: dir})
	if err != nil {
		fmt.Println(err)
	}
	recalled := store.Recall()
	for _, pod := range recalled.Pods {
		soon, _ := recalled.MayStart(pod, now.Add(time.Minute))
		late, _ := recalled.MayStart(pod, now.Add(time.Hour))
		fmt.Println(pod.Name, "may start after a minute:", soon, "after an hour:", late)
	}
	// Output: web may start after a minute: true after an hour: false
}
