package node_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

// fileStatus is what the kubelet says about a manifest, as far as it matters here.
type fileStatus struct {
	State  string `json:"state"`
	Line   int    `json:"line"`
	Reason string `json:"reason"`
	Kept   bool   `json:"kept"`
}

// fileStatuses asks the kubelet for its manifests, by file name.
func (a *agent) fileStatuses(ctx context.Context) (map[string]fileStatus, error) {
	data, err := a.kubelet.Get(ctx, "/manifests?output=json")
	if err != nil {
		return nil, err
	}
	var list []struct {
		Path string `json:"path"`
		fileStatus
	}
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, fmt.Errorf("decode %s: %w", data, err)
	}
	statuses := map[string]fileStatus{}
	for _, file := range list {
		statuses[filepath.Base(file.Path)] = file.fileStatus
	}
	return statuses, nil
}

const wrongValue = `apiVersion: v1
kind: Pod
metadata:
  name: wrong
spec:
  containers:
  - name: main
    image: nodekit.test/life:1
    ports:
    - containerPort: eighty
`

const halfWritten = `apiVersion: v1
kind: Pod
metadata:
  name: half
spec:
  containers: [
`

func TestBrokenManifestsStopNobodyElse(t *testing.T) {
	a := startAgent(t)
	a.file(a.Manifests(), "wrong.yaml", []byte(wrongValue))
	a.file(a.Manifests(), "half.yaml", []byte(halfWritten))
	a.runPod(newPod("good"))
	a.waitReady("good")
	var statuses map[string]fileStatus
	a.eventually("the kubelet knows all files", func(ctx context.Context) error {
		var err error
		statuses, err = a.fileStatuses(ctx)
		if err == nil && len(statuses) < 3 {
			err = fmt.Errorf("it knows %v", statuses)
		}
		return err
	})
	if status := statuses["good.yaml"]; status.State != "ok" {
		t.Errorf("good.yaml: %+v, want it ok", status)
	}
	if status := statuses["wrong.yaml"]; status.State != "invalid" || status.Line != 10 || !strings.Contains(status.Reason, "containerPort") {
		t.Errorf("wrong.yaml: %+v, want it invalid for containerPort in line 10", status)
	}
	if status := statuses["half.yaml"]; status.State != "invalid" || status.Line == 0 || status.Reason == "" {
		t.Errorf("half.yaml: %+v, want it invalid with a line and a reason", status)
	}
	log, err := os.ReadFile(a.kubelet.Log)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"wrong.yaml", "half.yaml"} {
		if !strings.Contains(string(log), file) {
			t.Errorf("the log %s does not name %s", a.kubelet.Log, file)
		}
	}
}

func TestManifestThatBreaksKeepsItsPod(t *testing.T) {
	a := startAgent(t)
	a.runPod(newPod("kept"))
	a.runPod(newPod("neighbour"))
	a.waitReady("kept")
	a.waitReady("neighbour")
	before := a.instances()
	a.file(a.Manifests(), "kept.yaml", []byte(halfWritten))
	a.eventually("the kubelet sees that kept.yaml broke", func(ctx context.Context) error {
		statuses, err := a.fileStatuses(ctx)
		if err == nil && (statuses["kept.yaml"].State != "invalid" || !statuses["kept.yaml"].Kept) {
			err = fmt.Errorf("it says %+v", statuses["kept.yaml"])
		}
		return err
	})
	a.runPod(newPod("later"))
	a.waitReady("later")
	after := a.instances()
	delete(after, podName("later"))
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("containers (-before +after):\n%s", diff)
	}
}

func TestFieldThatIsNotHonouredRejectsItsPodAlone(t *testing.T) {
	a := startAgent(t)
	refused := newPod("refused")
	refused.Spec.Volumes = []corev1.Volume{{Name: "disk", VolumeSource: corev1.VolumeSource{
		NFS: &corev1.NFSVolumeSource{Server: "192.0.2.1", Path: "/disk"},
	}}}
	a.runPod(refused)
	a.runPod(newPod("good"))
	a.waitReady("good")
	pod := a.waitPod("refused", "is refused", func(pod *corev1.Pod) bool { return pod.Status.Phase == corev1.PodFailed })
	if !strings.Contains(pod.Status.Message, "nfs") {
		t.Errorf("reason %q, message %q; want the field in it", pod.Status.Reason, pod.Status.Message)
	}
	if _, runs := a.instances()[podName("refused")]; runs {
		t.Error("its container runs nevertheless")
	}
}
