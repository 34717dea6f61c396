package storage_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"text/template"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nodekit-go/nodekit/test/cluster"
	"github.com/nodekit-go/nodekit/test/cluster/clustertest"
	"github.com/nodekit-go/nodekit/test/testnode"
)

// patience is how long one step may take on a machine that is busy.
const patience = 4 * time.Minute

// objects are a driver, a volume of it, its claim, and a pod that writes into it.
var objects = template.Must(template.New("objects").Parse(`
apiVersion: storage.k8s.io/v1
kind: CSIDriver
metadata: {name: {{.Driver}}}
spec: {attachRequired: {{.Attach}}, podInfoOnMount: true, fsGroupPolicy: File, volumeLifecycleModes: [Persistent, Ephemeral]}
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: pv-{{.Name}}}
spec:
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteOnce]
  storageClassName: none
  volumeMode: {{.Mode}}
  claimRef: {namespace: default, name: {{.Name}}}
  csi: {driver: {{.Driver}}, volumeHandle: handle-{{.Name}}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: {{.Name}}}
spec: {accessModes: [ReadWriteOnce], storageClassName: none, volumeMode: {{.Mode}}, volumeName: pv-{{.Name}}, resources: {requests: {storage: 1Gi}}}
`))

// pod uses the claim of a volume, and an inline volume of the same driver.
var pod = template.Must(template.New("pod").Parse(`
apiVersion: v1
kind: Pod
metadata: {name: {{.Pod}}}
spec:
  terminationGracePeriodSeconds: 1
  restartPolicy: Never
  securityContext: {fsGroup: 4711}
  containers:
  - name: main
    image: nodekit.test/life:1
    args: {{.Args}}
    volumeMounts: [{name: data, mountPath: /data}, {name: scratch, mountPath: /scratch}]
  volumes:
  - {name: data, persistentVolumeClaim: {claimName: {{.Name}}}}
  - {name: scratch, csi: {driver: {{.Driver}}}}
`))

// blockPod has the claim as a device.
var blockPod = template.Must(template.New("block").Parse(`
apiVersion: v1
kind: Pod
metadata: {name: {{.Pod}}}
spec:
  terminationGracePeriodSeconds: 1
  restartPolicy: Never
  containers:
  - name: main
    image: nodekit.test/life:1
    args: {{.Args}}
    volumeDevices: [{name: data, devicePath: /dev/disk}]
  volumes:
  - {name: data, persistentVolumeClaim: {claimName: {{.Name}}}}
`))

// scene is what a test fills its objects with.
type scene struct {
	Driver, Name string
	Attach       bool
	Mode         string // of the volume; empty: Filesystem
	Pod, Args    string
}

func apply(t *testing.T, c *cluster.Cluster, what *template.Template, s scene) {
	t.Helper()
	s.Mode = cmp.Or(s.Mode, "Filesystem")
	var text bytes.Buffer
	if err := what.Execute(&text, s); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Kubectl(t.Context(), text.String(), "apply", "-f", "-"); err != nil {
		t.Fatal(err)
	}
}

// await waits until kubectl prints something.
func await(t *testing.T, c *cluster.Cluster, want string, args ...string) {
	t.Helper()
	err := testnode.Eventually(t.Context(), patience, "kubectl "+strings.Join(args, " ")+" prints "+want, func(ctx context.Context) error {
		out, err := c.Kubectl(ctx, "", args...)
		if err == nil && !strings.Contains(out, want) {
			err = errors.New(out)
		}
		return err
	})
	if err != nil {
		events, _ := c.Kubectl(t.Context(), "", "get", "events")
		t.Fatalf("%v\n%s", err, events)
	}
}

// awaitEmpty waits until kubectl prints nothing.
func awaitEmpty(t *testing.T, c *cluster.Cluster, args ...string) {
	t.Helper()
	err := testnode.Eventually(t.Context(), patience, "kubectl "+strings.Join(args, " ")+" prints nothing", func(ctx context.Context) error {
		out, err := c.Kubectl(ctx, "", args...)
		if err == nil && strings.TrimSpace(out) != "" {
			err = errors.New(out)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestPodsHaveVolumesOfADriver goes through the life of volumes on a real node.
func TestPodsHaveVolumesOfADriver(t *testing.T) {
	clustertest.Require(t)
	t.Parallel()
	c := clustertest.Start(t, cluster.Config{
		Name: "storage", Nodes: 1, NoDNS: true, NoWait: true, Node: cluster.NodeConfig{Kubelet: cluster.Ours, Proxy: cluster.None},
	})
	n := c.Node(0)
	if err := n.ImportImage(t.Context(), testnode.Life()); err != nil {
		t.Fatal(err)
	}
	await(t, c, "True", "get", "node", n.NodeName(), "-o", `jsonpath={.status.conditions[?(@.type=="Ready")].status}`)
	await(t, c, "", "-n", "default", "get", "serviceaccount", "default")
	for _, step := range []struct {
		name string
		run  func(*testing.T, *cluster.Cluster, *cluster.Node)
	}{
		{"without attachment, over the death of the kubelet", withoutAttachment},
		{"with attachment", withAttachment},
		{"as a block device", blockDevice},
		{"with the kubelet that Kubernetes releases, by turns", byTurns},
		{"the Node is deleted", nodeDeleted},
	} {
		if !t.Run(step.name, func(t *testing.T) { step.run(t, c, n) }) {
			return
		}
	}
}

func withoutAttachment(t *testing.T, c *cluster.Cluster, n *cluster.Node) {
	t.Helper()
	s := scene{Driver: "plain.nodekit.test", Name: "plain"}
	driver := startDriver(t, n, s.Driver)
	await(t, c, "id-of-"+s.Driver, "get", "csinode", n.NodeName(), "-o", "jsonpath={.spec.drivers}")
	apply(t, c, objects, s)
	s.Pod, s.Args = "writer", `["-write", "/data/file=kept", "-read", "/scratch"]`
	apply(t, c, pod, s)
	await(t, c, "Running", "get", "pod", "writer", "-o", "jsonpath={.status.phase}")
	data := n.Private("lib", "csi", s.Driver, "volumes", fmt.Sprintf("%x", sha256.Sum256([]byte("handle-plain"))), "file")
	err := testnode.Eventually(t.Context(), patience, "what the pod writes", func(context.Context) error {
		raw, err := os.ReadFile(data)
		if err == nil && string(raw) != "kept" {
			err = fmt.Errorf("it is %q", raw)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := len(mounts(t, n)); got != 3 {
		t.Errorf("mounted are %v, want staging, the volume and the inline volume", mounts(t, n))
	}
	await(t, c, `kubelet_volume_stats_used_bytes{namespace="default",persistentvolumeclaim="plain"} 4`, "get", "--raw", "/api/v1/nodes/"+n.NodeName()+"/proxy/metrics")
	await(t, c, `"pvcRef"`, "get", "--raw", "/api/v1/nodes/"+n.NodeName()+"/proxy/stats/summary")
	await(t, c, `csi_operations_seconds_count{driver_name="plain.nodekit.test",grpc_status_code="OK",method_name="/csi.v1.Node/NodePublishVolume",migrated="false"} 2`,
		"get", "--raw", "/api/v1/nodes/"+n.NodeName()+"/proxy/metrics")

	restartKubelet(t, n)
	s.Pod, s.Args = "reader", `["-read", "/data/file", "-for", "1s"]`
	apply(t, c, pod, s)
	await(t, c, "Succeeded", "get", "pod", "reader", "-o", "jsonpath={.status.phase}")
	awaitLog(t, n, "reader", "read kept")
	await(t, c, "0 Running", "get", "pod", "writer", "-o", "jsonpath={.status.containerStatuses[0].restartCount} {.status.phase}")

	remove(t, c, "writer", "reader")
	awaitNothing(t, n)
	if raw, err := os.ReadFile(data); err != nil || string(raw) != "kept" {
		t.Errorf("the data is %q (%v)", raw, err)
	}
	if err := driver.Terminate(time.Minute); err != nil {
		t.Error(err)
	}
	awaitEmpty(t, c, "get", "csinode", n.NodeName(), "-o", "jsonpath={.spec.drivers[*].name}")
}

// withAttachment takes the part of the attacher of the driver: the control plane asks for
// the attachment, and lets go of it only when the node has.
func withAttachment(t *testing.T, c *cluster.Cluster, n *cluster.Node) {
	t.Helper()
	s := scene{Driver: "disk.nodekit.test", Name: "disk", Attach: true}
	driver := startDriver(t, n, s.Driver)
	await(t, c, "id-of-"+s.Driver, "get", "csinode", n.NodeName(), "-o", "jsonpath={.spec.drivers}")
	apply(t, c, objects, s)
	s.Pod, s.Args = "attached", `["-write", "/data/file=x"]`
	apply(t, c, pod, s)
	await(t, c, "csi-", "get", "volumeattachments", "-o", "name")
	name, err := c.Kubectl(t.Context(), "", "get", "volumeattachments", "-o", "jsonpath={.items[0].metadata.name}")
	if err != nil {
		t.Fatal(err)
	}
	if phase, err := c.Kubectl(t.Context(), "", "get", "pod", "attached", "-o", "jsonpath={.status.phase}"); err != nil || phase != "Pending" {
		t.Errorf("before the volume is attached the pod is %q (%v)", phase, err)
	}
	status := `{"status":{"attached":true,"attachmentMetadata":{"device":"sdb"}}}`
	if _, err := c.Kubectl(t.Context(), "", "patch", "volumeattachment", name, "--subresource=status", "--type=merge", "-p", status); err != nil {
		t.Fatal(err)
	}
	await(t, c, "Running", "get", "pod", "attached", "-o", "jsonpath={.status.phase}")
	unique := "kubernetes.io/csi/disk.nodekit.test^handle-disk"
	await(t, c, unique, "get", "node", n.NodeName(), "-o", "jsonpath={.status.volumesInUse}")
	remove(t, c, "attached")
	awaitNothing(t, n)
	awaitEmpty(t, c, "get", "node", n.NodeName(), "-o", "jsonpath={.status.volumesInUse[*]}")
	awaitEmpty(t, c, "get", "volumeattachments", "-o", "name")
	if err := driver.Terminate(time.Minute); err != nil {
		t.Error(err)
	}
}

// awaitLog waits until the container of a pod has printed something.
func awaitLog(t *testing.T, n *cluster.Node, pod, want string) {
	t.Helper()
	pattern := filepath.Join(n.Private("log", "pods"), "default_"+pod+"_*", "main", "*.log")
	err := testnode.Eventually(t.Context(), patience, pod+" prints "+want, func(context.Context) error {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) != 1 {
			return fmt.Errorf("logs are %v: %w", files, cmp.Or(err, os.ErrNotExist))
		}
		raw, err := os.ReadFile(files[0])
		if err == nil && !strings.Contains(string(raw), want) {
			err = fmt.Errorf("it prints %q", raw)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// blockDevice gives a pod a device that does not exist: what it says when it opens it
// shows that it has it, and may.
func blockDevice(t *testing.T, c *cluster.Cluster, n *cluster.Node) {
	t.Helper()
	s := scene{Driver: "block.nodekit.test", Name: "block", Mode: "Block"}
	driver := startDriver(t, n, s.Driver)
	await(t, c, "id-of-"+s.Driver, "get", "csinode", n.NodeName(), "-o", "jsonpath={.spec.drivers}")
	device := n.Private("lib", "csi", s.Driver, "volumes", fmt.Sprintf("%x.dev", sha256.Sum256([]byte("handle-block"))))
	if err := os.MkdirAll(filepath.Dir(device), 0o755); err != nil {
		t.Fatal(err)
	}
	// A number for experiments, see devices.txt of the kernel's documentation.
	if err := unix.Mknod(device, unix.S_IFBLK|0o600, int(unix.Mkdev(120, 0))); err != nil {
		t.Fatal(err)
	}
	apply(t, c, objects, s)
	s.Pod, s.Args = "opener", `["-read", "/dev/disk", "-for", "1s"]`
	apply(t, c, blockPod, s)
	await(t, c, "Succeeded", "get", "pod", s.Pod, "-o", "jsonpath={.status.phase}")
	awaitLog(t, n, s.Pod, "open /dev/disk: no such device or address")
	remove(t, c, s.Pod)
	awaitNothing(t, n)
	if err := driver.Terminate(time.Minute); err != nil {
		t.Error(err)
	}
}

// byTurns has each kubelet undo what the other one did, by what it finds on the disk.
func byTurns(t *testing.T, c *cluster.Cluster, n *cluster.Node) {
	t.Helper()
	s := scene{Driver: "turns.nodekit.test", Name: "turns"}
	driver := startDriver(t, n, s.Driver)
	apply(t, c, objects, s)
	for _, turn := range []struct {
		pod      string
		from, to cluster.Source
	}{
		{"ours-first", cluster.Ours, cluster.Stock},
		{"stock-first", cluster.Stock, cluster.Ours},
	} {
		await(t, c, "id-of-"+s.Driver, "get", "csinode", n.NodeName(), "-o", "jsonpath={.spec.drivers}")
		s.Pod, s.Args = turn.pod, `["-write", "/data/`+turn.pod+`=x"]`
		apply(t, c, pod, s)
		await(t, c, "Running", "get", "pod", turn.pod, "-o", "jsonpath={.status.phase}")
		if err := n.Kubelet().Stop(); err != nil {
			t.Fatal(err)
		}
		n.UseKubelet(turn.to)
		if err := n.Kubelet().Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		remove(t, c, turn.pod)
		awaitNothing(t, n)
	}
	if err := driver.Terminate(time.Minute); err != nil {
		t.Error(err)
	}
}

// nodeDeleted has the CSINode go with the Node, and come again with it.
func nodeDeleted(t *testing.T, c *cluster.Cluster, n *cluster.Node) {
	t.Helper()
	s := scene{Driver: "again.nodekit.test"}
	startDriver(t, n, s.Driver)
	await(t, c, "id-of-"+s.Driver, "get", "csinode", n.NodeName(), "-o", "jsonpath={.spec.drivers}")
	before, err := n.Object(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Kubectl(t.Context(), "", "delete", "node", n.NodeName()); err != nil {
		t.Fatal(err)
	}
	err = testnode.Eventually(t.Context(), patience, "a CSINode of another Node", func(ctx context.Context) error {
		now, err := n.Object(ctx)
		if err != nil {
			return err
		}
		if now.UID == before.UID {
			return errors.New("the Node of before is there")
		}
		out, err := c.Kubectl(ctx, "", "get", "csinode", n.NodeName(), "-o", "jsonpath={.metadata.ownerReferences[0].uid} {.spec.drivers[*].name}")
		if want := string(now.UID) + " " + s.Driver; err == nil && out != want {
			err = fmt.Errorf("it is of %q, want %q", out, want)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func restartKubelet(t *testing.T, n *cluster.Node) {
	t.Helper()
	if err := n.Kubelet().Kill(); err != nil {
		t.Fatal(err)
	}
	if err := n.Kubelet().Start(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, c *cluster.Cluster, pods ...string) {
	t.Helper()
	if _, err := c.Kubectl(t.Context(), "", append([]string{"delete", "pod", "--timeout=" + patience.String()}, pods...)...); err != nil {
		t.Fatal(err)
	}
}

// mounts returns what the driver has mounted on the node.
func mounts(t *testing.T, n *cluster.Node) []string {
	t.Helper()
	raw, err := n.Command(t.Context(), "cat", "/proc/self/mountinfo").Output()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	var out []string
	for line := range strings.Lines(string(raw)) {
		f := strings.Fields(line)
		if len(f) > 4 && strings.HasPrefix(f[4], kubeletRoot) && strings.Contains(f[4], "csi") && !seen[f[4]] {
			seen[f[4]] = true
			out = append(out, f[4])
		}
	}
	return out
}

// awaitNothing waits until nothing of a driver is mounted on the node, and no record of
// it is on the node's disk.
func awaitNothing(t *testing.T, n *cluster.Node) {
	t.Helper()
	err := testnode.Eventually(t.Context(), patience, "the end of all volumes", func(context.Context) error {
		if left := mounts(t, n); len(left) > 0 {
			return fmt.Errorf("mounted are %v", left)
		}
		for _, pattern := range []string{"pods/*/volumes/kubernetes.io~csi/*", "plugins/kubernetes.io/csi/*.nodekit.test/*", "plugins/kubernetes.io/csi/volumeDevices/pv-*"} {
			left, err := filepath.Glob(filepath.Join(n.Private("lib", "kubelet"), pattern))
			if err == nil && len(left) > 0 {
				err = fmt.Errorf("left are %v", left)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
