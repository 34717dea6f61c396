package mirror_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodekit-go/nodekit/staticpods"
	"github.com/nodekit-go/nodekit/staticpods/mirror"
)

const manifest = `
apiVersion: v1
kind: Pod
metadata: {name: meter, namespace: kube-system}
spec:
  containers:
  - {name: app, image: registry.example/meter:1}
`

// A static pod is shown at an API server, which is a fake here.
func Example() {
	server := newServer()
	client := server.client // with client-go: func(ns string) mirror.Pods { return clientset.CoreV1().Pods(ns) }
	nodeUID := func(context.Context) (types.UID, error) { return "n1", nil }

	made := make(chan *corev1.Pod)
	keeper, err := mirror.New(mirror.Config{
		Name: "node-a", Pods: client, Node: nodeUID,
		Hooks: mirror.Hooks{Created: func(pod *corev1.Pod) { made <- pod }},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	stopped := make(chan error)
	go func() { stopped <- keeper.Run(ctx) }()

	static, err := staticpods.Decode([]byte(manifest), "node-a")
	if err != nil {
		fmt.Println(err)
	}
	keeper.Have(nil) // a watch has found no mirrors
	keeper.Want(mirror.Set{Pods: []*corev1.Pod{static.Pod}})

	pod := <-made
	stop()
	fmt.Println("stopped:", <-stopped)
	fmt.Println(pod.Namespace+"/"+pod.Name, "of", pod.OwnerReferences[0].Kind, pod.OwnerReferences[0].Name)
	fmt.Println("same version:", pod.Annotations[corev1.MirrorPodAnnotationKey] == string(static.Pod.UID))
	// Output:
	// stopped: <nil>
	// kube-system/meter-node-a of Node node-a
	// same version: true
}

// Project alone tells what the API server would get.
func ExampleProject() {
	pod := full()
	m := mirror.Project(pod, mirror.Owner{Name: "node-a", UID: "n1"})
	fmt.Println(len(pod.Spec.Volumes), "volumes,", len(m.Spec.Volumes), "in the mirror")
	fmt.Println(m.Annotations[mirror.AnnotationOmits][:46])
	// Output:
	// 12 volumes, 4 in the mirror
	// spec.serviceAccountName,spec.imagePullSecrets,
}
