package images

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"sync"

	"golang.org/x/sync/errgroup"
)

// set is the images of one archive, and what they are made of.
type set struct {
	name     string
	images   []image
	packages []string // Debian's, in the layer debian.
	tools    []tool
	programs []string // Folders of this repository.
	files    []string // Programs of the machine.
	// make makes the set's layers.
	make func(context.Context, workshop) (map[string]func(*tar.Writer) error, error)
}

// tool is a program of a nested module, by hack/tool.sh.
type tool struct{ name, dependency, module string }

func coredns() tool { return tool{"coredns", "github.com/coredns/coredns", "test/tools"} }
func agnhost() tool { return tool{"agnhost", "k8s.io/kubernetes", "test/tools/kubernetes"} }

// workshop is where a set's layers are made.
type workshop struct {
	repo     repository
	dir      string // Emptied before and after.
	cache    string // For what is made once for several recipes.
	progress func(string)
}

func (w workshop) path(name string) string { return filepath.Join(w.dir, name) }

// program compiles a program of the repository and returns its path.
func (w workshop) program(ctx context.Context, pkg string) (string, error) {
	binary := w.path(path.Base(pkg))
	return binary, w.repo.program(ctx, pkg, binary)
}

func (s set) refs() []string {
	refs := make([]string, 0, len(s.images))
	for _, i := range s.images {
		refs = append(refs, i.ref)
	}
	return refs
}

// layers makes the set's layers, all at the same time.
func (s set) layers(ctx context.Context, w workshop) (map[string]layer, error) {
	fills, err := s.make(ctx, w)
	if err != nil {
		return nil, err
	}
	var (
		mu     sync.Mutex // Guards layers.
		layers = map[string]layer{}
		group  errgroup.Group
	)
	for name, fill := range fills {
		group.Go(func() error {
			l, err := saveLayer(w.path(name+".layer"), fill)
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			layers[name] = l
			return nil
		})
	}
	return layers, group.Wait()
}

// files returns the filling of a small layer.
func files(entries ...entry) func(*tar.Writer) error {
	return func(archive *tar.Writer) error { return addEntries(archive, entries) }
}

func clusterSet() set {
	const pause = "hack/images/pause"
	pauseConfig := config{Entrypoint: []string{"/pause"}, User: "65535:65535"}
	return set{
		name: "cluster",
		images: []image{
			{ref: PauseRef, layers: []string{"pause"}, config: pauseConfig},
			{ref: SuitePauseRef, layers: []string{"pause"}, config: pauseConfig},
			{ref: CoreDNSRef, layers: []string{"coredns"}, config: config{Entrypoint: []string{"/coredns"}}},
		},
		tools:    []tool{coredns()},
		programs: []string{pause},
		make: func(ctx context.Context, w workshop) (map[string]func(*tar.Writer) error, error) {
			pauseBinary, err := w.program(ctx, pause)
			if err != nil {
				return nil, err
			}
			dns, err := w.repo.tool(ctx, coredns().name, coredns().module)
			if err != nil {
				return nil, err
			}
			return map[string]func(*tar.Writer) error{
				"pause":   files(entry{name: "pause", mode: 0o755, path: pauseBinary}),
				"coredns": files(entry{name: "tmp/", mode: 0o1777}, entry{name: "coredns", mode: 0o755, path: dns}),
			}, nil
		},
	}
}

const (
	nnp    = "hack/images/nnp"
	shell  = "hack/images/sh"
	nmeter = "hack/images/nmeter"
)

func suitesSet() set {
	debian, sh := []string{"debian"}, []string{"sh"}
	nginx := config{Entrypoint: []string{"/usr/sbin/nginx"}, Cmd: []string{"-g", "daemon off;"}}
	agnhostConfig := config{Entrypoint: []string{"/agnhost"}, Cmd: []string{"pause"}}
	return set{
		name: "suites",
		images: []image{
			{ref: AgnhostRef, layers: []string{"debian", "agnhost"}, config: agnhostConfig},
			{ref: AgnhostPrevRef, layers: []string{"debian", "agnhost"}, config: agnhostConfig},
			{ref: BusyBoxRef, layers: []string{"debian", "busybox"}, config: config{Cmd: sh}},
			{ref: NginxRef, layers: []string{"debian", "nginx"}, config: nginx},
			{ref: NginxNewRef, layers: []string{"debian", "nginx"}, config: nginx},
			{ref: NonewprivsRef, layers: []string{"debian", "nnp"}, config: config{Cmd: []string{"nnp"}}},
			{ref: NonRootRef, layers: debian, config: config{Cmd: sh, User: "1234"}},
			{ref: GlibcDNSTestRef, layers: debian, config: config{Cmd: sh}},
			{ref: IPCUtilsRef, layers: debian, config: config{Cmd: sh}},
			{ref: KittenRef, layers: []string{"debian", "kitten"}, config: config{Cmd: sh}},
			{ref: SampleDevicePluginRef, layers: []string{"devices"}, config: config{Entrypoint: []string{"/sampledeviceplugin"}}},
			{ref: Issue74839Ref, layers: []string{"issue74839"}, config: config{Entrypoint: []string{"/issue74839"}}},
			{ref: IptablesRef, layers: debian, config: config{Cmd: sh}},
		},
		packages: debianPackages(),
		tools:    []tool{agnhost()},
		programs: []string{nnp, shell, nmeter},
		make:     makeSuites,
	}
}

// Programs of upstream's, beside its tools.
const (
	issue74839 = "k8s.io/kubernetes/test/images/regression-issue-74839"
	devices    = "k8s.io/kubernetes/test/images/sample-device-plugin"
)

// parts are what the suites' layers are made of: paths of programs, and the folder of a
// Debian.
type parts struct{ root, nnp, shell, nmeter, agnhost, issue74839, devices string }

func gather(ctx context.Context, w workshop) (parts, error) {
	var p parts
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() (err error) {
		p.root, err = debianRoot(ctx, w)
		return err
	})
	group.Go(func() (err error) {
		if p.nnp, err = w.program(ctx, nnp); err == nil {
			p.shell, err = w.program(ctx, shell)
		}
		if err == nil {
			p.nmeter, err = w.program(ctx, nmeter)
		}
		return err
	})
	group.Go(func() (err error) {
		p.agnhost, err = w.repo.tool(ctx, agnhost().name, agnhost().module)
		return err
	})
	group.Go(func() error {
		p.issue74839 = w.path("issue74839")
		p.devices = w.path("devices")
		return errors.Join(
			w.repo.build(ctx, agnhost().module, issue74839, p.issue74839),
			w.repo.build(ctx, agnhost().module, devices, p.devices),
		)
	})
	return p, group.Wait()
}

func makeSuites(ctx context.Context, w workshop) (map[string]func(*tar.Writer) error, error) {
	p, err := gather(ctx, w)
	if err != nil {
		return nil, err
	}
	agnhostFiles, err := agnhostEntries(ctx, w.repo, p)
	if err != nil {
		return nil, fmt.Errorf("collect the files of agnhost: %w", err)
	}
	applets, err := appletEntries(ctx, p.root)
	if err != nil {
		return nil, err
	}
	timer := entry{name: "usr/bin/nmeter", mode: 0o755, path: p.nmeter}
	w.progress("packing the images")
	return map[string]func(*tar.Writer) error{
		"debian":     func(archive *tar.Writer) error { return addDebian(archive, p.root) },
		"agnhost":    files(append(agnhostFiles, timer)...),
		"busybox":    files(append(applets, entry{name: binSh, mode: 0o755, path: p.shell}, timer)...),
		"nginx":      files(nginxEntries()...),
		"nnp":        files(entry{name: "usr/local/bin/nnp", mode: 0o6755, path: p.nnp}),
		"kitten":     files(entry{name: "data.json", mode: 0o644, data: []byte(`{"image": "kitten.jpg"}`)}),
		"devices":    files(entry{name: "sampledeviceplugin", mode: 0o755, path: p.devices}),
		"issue74839": files(entry{name: "issue74839", mode: 0o755, path: p.issue74839}),
	}, nil
}
