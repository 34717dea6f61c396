package joined_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/google/go-cmp/cmp"
)

// hoarders are pods that take more of the node's disk than their own limits allow: one in
// a volume, one with what it writes to its log. The third one is modest.
const hoarders = `
apiVersion: v1
kind: Pod
metadata: {name: hoarder}
spec:
  nodeName: node-0
  automountServiceAccountToken: false
  containers:
  - name: main
    image: nodekit.test/life:1
    args: [-write, "/v/file=TEXT"]
    volumeMounts: [{name: v, mountPath: /v}]
  volumes:
  - {name: v, emptyDir: {sizeLimit: 64Ki}}
---
apiVersion: v1
kind: Pod
metadata: {name: talker}
spec:
  nodeName: node-0
  automountServiceAccountToken: false
  containers:
  - name: main
    image: nodekit.test/life:1
    args: [-count, "20000"]
    resources: {limits: {ephemeral-storage: 100Ki}}
---
apiVersion: v1
kind: Pod
metadata: {name: modest}
spec:
  nodeName: node-0
  automountServiceAccountToken: false
  terminationGracePeriodSeconds: 1
  containers:
  - name: main
    image: nodekit.test/life:1
    args: [-write, "/v/file=little"]
    volumeMounts: [{name: v, mountPath: /v}]
    resources: {limits: {ephemeral-storage: 10Mi}}
  volumes:
  - {name: v, emptyDir: {sizeLimit: 10Mi}}
`

// evict has pods evicted that take more of the disk than they may.
func evict(w *workload) {
	w.t.Helper()
	w.kubectl(strings.Replace(hoarders, "TEXT", strings.Repeat("x", 100<<10), 1), "apply", "-f", "-")
	want := map[string]string{
		"hoarder": `Failed Evicted Usage of EmptyDir volume "v" exceeds the limit "64Ki". `,
		"talker":  "Failed Evicted Pod ephemeral local storage usage exceeds the total limit of containers 100Ki. ",
		"modest":  "Running  ",
	}
	w.eventually("the pods over their limits are evicted, and no other", func(ctx context.Context) error {
		pods, err := w.pods(ctx)
		if err != nil {
			return err
		}
		got := map[string]string{}
		for name := range want {
			if pod := pods[name]; pod != nil {
				got[name] = fmt.Sprintf("%s %s %s", pod.Status.Phase, pod.Status.Reason, pod.Status.Message)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			return fmt.Errorf("pods (-want +got):\n%s", diff)
		}
		return nil
	})
	w.kubectl("", "delete", "pod", "hoarder", "talker", "modest")
}
