package node_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodekit-go/nodekit/test/testnode"
)

// strangers are pods that are not ours: one without any mark, one that a stock
// kubelet made from a file, and one of another nodekit instance.
func strangers() []testnode.Stranger {
	life := testnode.Life().Ref
	return []testnode.Stranger{
		{Name: "by-hand", Image: life},
		{Name: "of-stock-kubelet", Image: life, Annotations: map[string]string{
			"kubernetes.io/config.source": "file", "kubernetes.io/config.hash": "0123456789abcdef",
		}},
		{Name: "of-other-instance", Image: life, Annotations: map[string]string{
			"kubernetes.io/config.source": "file", "io.nodekit.instance": "another",
		}},
	}
}

func TestStrangersPodsAreLeftAlone(t *testing.T) {
	node := useNode(t)
	for _, stranger := range strangers() {
		ids, err := node.RunStranger(t.Context(), stranger)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { (&agent{suite: node, t: t}).removeSandbox(context.WithoutCancel(t.Context()), ids.Sandbox) })
	}
	want := (&agent{suite: node, t: t}).instances()
	if len(want) != len(strangers()) {
		t.Fatalf("strangers that run: %v", want)
	}

	a := startAgent(t)
	check := func(when string) {
		t.Helper()
		got := a.instances()
		delete(got, podName("ours"))
		delete(got, podName("later"))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("strangers %s (-want +got):\n%s", when, diff)
		}
	}
	a.runPod(newPod("ours"))
	a.waitReady("ours")
	check("beside a pod of ours")

	if err := a.kubelet.Terminate(10 * time.Second); err != nil {
		t.Fatal(err)
	}
	check("after the kubelet stopped")
	a.start()
	a.waitReady("ours")
	check("after a start")

	if err := a.kubelet.Kill(); err != nil {
		t.Fatal(err)
	}
	a.start()
	a.waitReady("ours")
	check("after kill -9 and a start")

	a.removePod("ours")
	a.waitGone("ours")
	check("with an empty folder of manifests")

	// A start on an empty folder: nothing in it names any pod.
	if err := a.kubelet.Kill(); err != nil {
		t.Fatal(err)
	}
	a.start()
	a.runPod(newPod("later"))
	a.waitReady("later")
	check("after a start on an empty folder")
}
