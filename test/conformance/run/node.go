package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/test/conformance"
	"github.com/nodekit-go/nodekit/test/images"
	"github.com/nodekit-go/nodekit/test/testnode"
)

// nodeEnvironment is a place with a container runtime for the suite test/e2e_node,
// which starts API server and kubelet itself.
type nodeEnvironment struct {
	*testnode.Node
	cfg     Config
	runtime *testnode.Process
	service string // A folder with the kubelet, and programs that restart it.
}

// batch is how many specs of test/e2e_node run with one start of its API server. A kill
// forgets those of a batch that failed: only its report tells of them.
const batch = 64

// joinScript puts the shell into the control group $own. With version 2 a group whose
// children have controllers can hold no process itself, and this one is to be a root.
const joinScript = `if [ -e "$own/cgroup.controllers" ]; then
		mkdir -p "$own/programs"
		echo $$ >"$own/programs/cgroup.procs"
	else
		echo $$ >"$own/cgroup.procs"
	fi`

// viewScript runs a program, $2 and on, in the control group $1 of each hierarchy, and
// with that one as the root of all it sees, for the suite makes the kubelet move every
// process of the root. It also hides the tools of a systemd that does not run.
const viewScript = `set -e
group=$1
shift
for hierarchy in /sys/fs/cgroup/*/; do
	own=$hierarchy$group
	[ -d "$own" ] || continue
	for file in cpuset.mems cpuset.cpus; do
		[ ! -e "$own/$file" ] || cat "$hierarchy$file" >"$own/$file"
	done
	` + joinScript + `
done
exec unshare --mount --cgroup --propagation unchanged sh -c '
	set -e
	group=$1
	shift
	mount --make-rprivate /sys/fs/cgroup
	for hierarchy in /sys/fs/cgroup/*; do
		[ ! -d "$hierarchy/$group" ] || mount --bind "$hierarchy/$group" "$hierarchy"
	done
	for tool in systemd-run systemctl journalctl; do
		[ ! -e "/usr/bin/$tool" ] || mount --bind /dev/null "/usr/bin/$tool"
	done
	exec "$@"' view "$group" "$@"`

// groupsMount is where the hierarchies of control groups are mounted.
const groupsMount = "/sys/fs/cgroup"

// errUnified is why the suite cannot run: its view of control groups is made of a group in
// each hierarchy, and of one for all the suite would change the machine's own.
var errUnified = errors.New("the suite e2e_node runs in groups of its own in the hierarchies of version 1, and " + groupsMount +
	" is of version 2: boot with systemd.unified_cgroup_hierarchy=0")

// checkHierarchies wants hierarchies of version 1 below mount.
func checkHierarchies(mount string) error {
	switch _, err := os.Stat(filepath.Join(mount, "cgroup.controllers")); {
	case err == nil:
		return errUnified
	case errors.Is(err, os.ErrNotExist):
		return nil
	default:
		return fmt.Errorf("look for the version of control groups: %w", err)
	}
}

func startNode(ctx context.Context, cfg Config, dir string) (_ environment, err error) {
	if err := checkHierarchies(groupsMount); err != nil {
		return nil, err
	}
	archives, refs, err := nodeImages(ctx, cfg)
	if err != nil {
		return nil, err
	}
	kubelet, err := kubeletBinary(ctx, cfg)
	if err != nil {
		return nil, err
	}
	programs, err := runtimePrograms(ctx, cfg.Kit.Runtime, dir, testnode.ToolFolder)
	if err != nil {
		return nil, err
	}
	node, err := testnode.Start(ctx, testnode.Config{
		Name: "suite", Logs: filepath.Join(dir, "logs"), Containerd: programs, Isolated: true, Progress: cfg.Progress,
	})
	if err != nil {
		return nil, err
	}
	n := &nodeEnvironment{Node: node, cfg: cfg}
	defer func() {
		if err != nil {
			err = errors.Join(err, n.stop(ctx))
		}
	}()
	for i, archive := range archives {
		if err := node.ImportArchive(ctx, archive, refs[i]...); err != nil {
			return nil, err
		}
	}
	if err := n.startRuntime(ctx, programs); err != nil {
		return nil, err
	}
	n.service = n.Dir("service")
	return n, writeService(n.service, kubelet)
}

func nodeImages(ctx context.Context, cfg Config) (archives []string, refs [][]string, err error) {
	progress := images.Config{Progress: cfg.Progress}
	base, err := images.Cluster(ctx, progress)
	if err != nil {
		return nil, nil, err
	}
	suites, err := images.Suites(ctx, progress)
	return []string{base, suites}, [][]string{images.ClusterRefs(), images.SuitesRefs()}, err
}

// runtimePrograms returns the folder of the runtime's programs, empty for those of the
// distribution. It is one of its own in dir, the run's, for our programs lie there, too.
// The function link fills it.
func runtimePrograms(ctx context.Context, runtime, dir string, link func(ctx context.Context, dir string, names ...string) error) (string, error) {
	switch runtime {
	case "containerd":
		return "", nil
	case "containerd2":
		programs, err := filepath.Abs(filepath.Join(dir, "runtime"))
		if err == nil {
			err = os.RemoveAll(programs)
		}
		if err == nil {
			err = link(ctx, programs, "containerd", "containerd-shim-runc-v2", "ctr", "runc")
		}
		return programs, err
	default:
		return "", fmt.Errorf("there are no programs of the runtime %s", runtime)
	}
}

// startRuntime starts containerd anew with the view of the suite: both must mean the
// same by the path of a control group.
func (n *nodeEnvironment) startRuntime(ctx context.Context, programs string) error {
	if err := n.KillContainerd(); err != nil {
		return err
	}
	path, containerd := os.Getenv("PATH")+":/usr/sbin:/sbin", "containerd"
	if programs != "" {
		path, containerd = programs+":"+path, filepath.Join(programs, containerd)
	}
	var err error
	n.runtime, err = n.StartProcess("containerd", "sh", "-c", viewScript, "view", n.CgroupRoot(),
		"env", "PATH="+path, containerd, "--config", n.Dir("containerd.toml"))
	if err != nil {
		return err
	}
	return testnode.Eventually(ctx, 30*time.Second, "containerd is ready", n.ContainerdReady)
}

func (n *nodeEnvironment) stop(ctx context.Context) error {
	return n.Stop(ctx)
}

func (n *nodeEnvironment) versions(ctx context.Context) ([]string, error) {
	version, err := n.CRI().Runtime.Version(ctx, &runtimeapi.VersionRequest{})
	if err != nil {
		return nil, fmt.Errorf("ask the runtime for its version: %w", err)
	}
	return []string{version.GetRuntimeName() + " " + version.GetRuntimeVersion()}, nil
}

func (n *nodeEnvironment) run(ctx context.Context, dir string, specs []string, add func(conformance.Result) error) (setup []string, err error) {
	dir, err = filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	for i, some := range n.cfg.Groups.Batches(specs, batch) {
		part := filepath.Join(dir, strconv.Itoa(i+1))
		if err := os.Mkdir(part, 0o755); err != nil {
			return setup, err
		}
		found, err := n.runBatch(ctx, part, some, add)
		setup = append(setup, found...)
		if err != nil {
			return setup, err
		}
	}
	return setup, nil
}

func (n *nodeEnvironment) runBatch(ctx context.Context, dir string, specs []string, add func(conformance.Result) error) ([]string, error) {
	ginkgo, err := tool(ctx, "ginkgo")
	if err != nil {
		return nil, err
	}
	suite, err := suiteProgram(ctx, conformance.E2ENode, dir)
	if err != nil {
		return nil, err
	}
	// The suite looks for the kubelet beside itself.
	if err := os.Symlink(filepath.Join(n.service, "kubelet"), filepath.Join(dir, "kubelet")); err != nil {
		return nil, err
	}
	config, err := n.writeKubeletConfig()
	if err != nil {
		return nil, err
	}
	settings := n.Dir("settings")
	if err := testnode.CopySettings(settings); err != nil {
		return nil, err
	}
	args := []string{"-c", suiteScript, "suite", strconv.Itoa(n.runtime.PID()), n.CgroupRoot(), dir, n.service, settings}
	args = append(args, ginkgoArguments(ginkgo, dir, specs, n.cfg.Procs)...)
	args = append(args, suite, "--",
		"--container-runtime-endpoint=unix://"+n.Socket(), "--kubelet-config-file="+config,
		"--prepull-images=false", "--report-dir="+dir, "--standalone-mode="+strconv.FormatBool(n.cfg.Set.Standalone),
	)
	cmd := n.Command(ctx, "sh", args...)
	return suiteRun{dir: dir, specs: specs, add: add, progress: n.cfg.Progress}.run(ctx, cmd)
}

// suiteScript runs a program, $6 and on, with the view of the process $1, in the
// control group $2, with the working directory $3, with the programs in $4, and with the
// copies in $5 of the kernel's settings that a kubelet changes: they are the machine's.
const suiteScript = `set -e
pid=$1 group=$2 dir=$3 settings=$5
export PATH="$4:$PATH"
shift 5
for hierarchy in /sys/fs/cgroup/*/; do
	own=$hierarchy$group
	[ -d "$own" ] || continue
	` + joinScript + `
done
exec nsenter --target "$pid" --mount --cgroup unshare --mount --propagation unchanged sh -c '
	set -e
	settings=$1 dir=$2
	shift 2
	` + testnode.CoverSettings + `
	cd "$dir"
	exec "$@"' suite "$settings" "$dir" "$@"`

// writeKubeletConfig writes what the suite takes as the beginning of the kubelet's
// configuration.
func (n *nodeEnvironment) writeKubeletConfig() (string, error) {
	config := map[string]any{
		"apiVersion":               "kubelet.config.k8s.io/v1beta1",
		"kind":                     "KubeletConfiguration",
		"cgroupRoot":               "/",
		"cgroupDriver":             "cgroupfs",
		"containerRuntimeEndpoint": "unix://" + n.Socket(),
		"fileCheckFrequency":       "10s",
		"serializeImagePulls":      false,
		"failSwapOn":               false,
		"failCgroupV1":             false,
		// Root lacks CAP_SYS_RESOURCE on some hosts.
		"featureGates": map[string]bool{"KubeletInUserNamespace": true},
		// The images come from an archive and nowhere else.
		"imageGCHighThresholdPercent": 100,
		"imageGCLowThresholdPercent":  99,
		"evictionHard":                map[string]string{"memory.available": "100Mi", "nodefs.available": "1%", "nodefs.inodesFree": "1%"},
	}
	data, err := json.MarshalIndent(config, "", "  ")
	if err != nil {
		return "", err
	}
	path := n.Dir("kubelet-base.yaml")
	return path, os.WriteFile(path, data, 0o644)
}

// kubeletBinary returns the path of the kubelet: upstream's, or ours, which must be there.
func kubeletBinary(ctx context.Context, cfg Config) (string, error) {
	if cfg.Kit.Kubelet == conformance.Stock {
		return tool(ctx, "kubelet")
	}
	path := filepath.Join(cfg.Programs, "kubelet")
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("find the kubelet of the run: %w", err)
	}
	return path, nil
}
