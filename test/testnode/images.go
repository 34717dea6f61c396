package testnode

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Image is a container image that holds one static program of this repository.
type Image struct {
	// Ref is the image's name, as pods use it.
	Ref string
	// Program is the program's package below the repository's root.
	Program string
}

// Pause returns the image of every pod's sandbox.
func Pause() Image { return Image{Ref: PauseRef, Program: "hack/images/pause"} }

// Web returns the image of a web server that answers its pod's name.
func Web() Image { return Image{Ref: "nodekit.test/web:1", Program: "hack/images/web"} }

// Life returns the image of a program whose life its arguments tell: what it
// prints, how long it runs, how it ends.
func Life() Image { return Image{Ref: "nodekit.test/life:1", Program: "hack/images/life"} }

// Build compiles a package below the repository's root to a static binary in dir
// and returns its path. The package is named relative to the root, as in
// "examples/kubelet"; the binary gets its last element as name. The working
// directory must be inside the repository.
func Build(ctx context.Context, dir, pkg string) (string, error) {
	root, err := moduleRoot(ctx)
	if err != nil {
		return "", err
	}
	dir, err = filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("build %s: %w", pkg, err)
	}
	binary := filepath.Join(dir, path.Base(pkg))
	// Without version control stamps: git refuses a clone that belongs to another
	// user than the root who runs this.
	cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-trimpath", "-o", binary, "./"+pkg)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", pkg, err, bytes.TrimSpace(out))
	}
	return binary, nil
}

func moduleRoot(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("find the repository's root: go env GOMOD: %w", err)
	}
	file := string(bytes.TrimSpace(out))
	if file == "" || file == os.DevNull {
		return "", errors.New("find the repository's root: the working directory is in no Go module")
	}
	return filepath.Dir(file), nil
}

// ImportImage compiles the image's program, wraps it and imports it into the
// node's containerd. It returns when the runtime can make containers from it.
func (n *Node) ImportImage(ctx context.Context, image Image) error {
	binary, err := Build(ctx, n.lay.path("images"), image.Program)
	if err != nil {
		return err
	}
	archive := binary + ".tar"
	if err := ArchiveProgram(archive, image.Ref, binary); err != nil {
		return fmt.Errorf("make image %s: %w", image.Ref, err)
	}
	return n.ImportArchive(ctx, archive)
}

// ImportArchive imports an archive of images, as "docker save" writes it, into the
// node's containerd, and returns when the runtime knows the images called refs, by
// default all. An adopted runtime that is not containerd must know them already.
func (n *Node) ImportArchive(ctx context.Context, archive string, refs ...string) error {
	if len(refs) == 0 {
		var err error
		if refs, err = archiveRefs(archive); err != nil {
			return fmt.Errorf("import images %s: %w", archive, err)
		}
	}
	version, err := n.cri.Runtime.Version(ctx, &runtimeapi.VersionRequest{})
	if err != nil {
		return fmt.Errorf("import images %s: ask the runtime for its version: %w", archive, err)
	}
	if version.GetRuntimeName() != "containerd" {
		return n.expectImages(ctx, archive, refs)
	}
	args := []string{"--address", n.Socket(), "--namespace", "k8s.io", "images", "import", archive}
	if n.cfg.Adopt == "" {
		args = append(args[:len(args)-1], "--snapshotter", n.snapshotter, archive)
	}
	if err := run(ctx, n.containerdProgram("ctr"), args...); err != nil {
		return fmt.Errorf("import images %s: %w", archive, err)
	}
	// The CRI service learns of new images from containerd's events.
	return Eventually(ctx, 10*time.Second, "the runtime knows the images", func(ctx context.Context) error {
		return n.expectImages(ctx, archive, refs)
	})
}

// expectImages returns an error that names the first image the runtime does not know.
func (n *Node) expectImages(ctx context.Context, archive string, refs []string) error {
	for _, ref := range refs {
		status, err := n.cri.Images.ImageStatus(ctx, &runtimeapi.ImageStatusRequest{
			Image: &runtimeapi.ImageSpec{Image: ref},
		})
		if err != nil {
			return fmt.Errorf("ask the runtime for image %s: %w", ref, err)
		}
		if status.GetImage() == nil {
			return fmt.Errorf("the runtime at %s does not know image %s; it is in the archive %s", n.Socket(), ref, archive)
		}
	}
	return nil
}

// ArchiveProgram writes an archive with one image, called ref, whose only program is
// the static binary.
func ArchiveProgram(archive, ref, binary string) error {
	program, err := os.ReadFile(binary)
	if err != nil {
		return err
	}
	file, err := os.Create(archive)
	if err != nil {
		return err
	}
	return errors.Join(writeArchive(file, ref, filepath.Base(binary), program), file.Close())
}
