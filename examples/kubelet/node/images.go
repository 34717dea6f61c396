package node

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"

	"github.com/nodekit-go/nodekit/podworker/events"
	"github.com/nodekit-go/nodekit/runtime/images"
	"github.com/nodekit-go/nodekit/runtime/images/gc"
	"github.com/nodekit-go/nodekit/runtime/images/pullrecord"
	"github.com/nodekit-go/nodekit/runtime/images/registryauth"
)

// CredentialPlugins says where the plugins are that have credentials for registries
// (https://kubernetes.io/docs/tasks/administer-cluster/kubelet-credential-provider/). The
// zero value has none.
type CredentialPlugins struct {
	// Config is the file or directory of their configuration, Dir the directory with
	// the plugins themselves.
	Config, Dir string
}

// pictures has the images of the node's pods: it pulls them, remembers who did, and
// removes those that nobody uses.
type pictures struct {
	*images.Manager
	collector *gc.Collector
	records   *pullrecord.Store
	// guest leaves the removal of images to another agent.
	guest bool
	// sandboxImage is the image of sandboxes; empty: not known.
	sandboxImage string
}

// recordsDir is where the kubelet keeps whose credentials pulled what.
const recordsDir = "image_manager"

// newPictures puts the parts together.
func newPictures(ctx context.Context, n *Node, a *agent) (*pictures, error) {
	k := n.cfg.Kubelet
	records, err := pullrecord.Open(filepath.Join(n.cfg.Root, recordsDir))
	if err != nil {
		return nil, err
	}
	verifier, err := pullrecord.NewVerifier(pullrecord.Policy(k.ImagePullCredentialsVerificationPolicy), k.PreloadedImagesVerificationAllowlist)
	if err != nil {
		return nil, err
	}
	credentials, err := n.credentials()
	if err != nil {
		return nil, err
	}
	p := &pictures{records: records, guest: n.guest}
	keep := sandboxImage(ctx, a.runtime)
	p.sandboxImage = strings.Join(keep, "")
	p.Manager, err = images.New(a.runtime, images.Config{
		MaxParallel: parallelPulls(k),
		QPS:         float64(*k.RegistryPullQPS),
		Burst:       int(k.RegistryBurst),
		Credentials: credentials,
		Records:     records,
		Verifier:    verifier,
		Hooks:       images.Hooks{Event: a.tellImage, Pull: a.metrics.tally.pulled, Asked: a.metrics.tally.wants},
		Log:         n.log,
	})
	if err != nil {
		return nil, err
	}
	p.collector, err = gc.New(a.runtime, gc.Config{
		Policy: gc.Policy{
			HighPercent: int(*k.ImageGCHighThresholdPercent), LowPercent: int(*k.ImageGCLowThresholdPercent),
			MinAge: k.ImageMinimumGCAge.Duration, MaxAge: k.ImageMaximumGCAge.Duration,
		},
		Given: p.Given,
		Hooks: gc.Hooks{
			Event: func(e gc.Event) {
				a.events.Record(events.OfNode(n.cfg.Name), corev1.EventTypeWarning, e.Reason, e.Message)
			},
			Removed: a.metrics.tally.removed,
			Collected: func(ids []string, listed time.Time) {
				if err := records.Prune(ids, listed); err != nil {
					n.log.Warn("records of pulls of removed images were not removed", "err", err)
				}
			},
		},
		Keep: keep,
		Log:  n.log,
	})
	return p, err
}

// sandboxImage returns the image of sandboxes as the runtime's configuration names it,
// so that it stays where the runtime does not pin it; nothing if the runtime does not
// say, as those that pin it.
func sandboxImage(ctx context.Context, rt Runtime) []string {
	st, err := rt.Status(ctx, true)
	if err != nil {
		return nil
	}
	var config struct {
		SandboxImage string `json:"sandboxImage"`
	}
	if json.Unmarshal([]byte(st.GetInfo()["config"]), &config) != nil || config.SandboxImage == "" {
		return nil
	}
	return []string{config.SandboxImage}
}

// parallelPulls returns how many images are pulled at a time; 0: as many as package
// images thinks good.
func parallelPulls(k *kubeletconfig.KubeletConfiguration) int {
	switch {
	case *k.SerializeImagePulls:
		return 1
	case k.MaxParallelImagePulls != nil:
		return int(*k.MaxParallelImagePulls)
	}
	return 0
}

// credentials are those of the node, where the kubelet looks for them, and the secrets
// of pods that come from an API server.
func (n *Node) credentials() (images.Credentials, error) {
	home, _ := os.UserHomeDir() // a daemon may have none
	c := images.Credentials{Files: registryauth.KubeletFiles(n.cfg.Root, home)}
	if n.cfg.Client != nil {
		c.Secret = func(ctx context.Context, namespace, name string) (*corev1.Secret, error) {
			return n.cfg.Client.CoreV1().Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
		}
	}
	if plugins := n.cfg.CredentialPlugins; plugins != (CredentialPlugins{}) {
		var err error
		if c.Providers, err = registryauth.LoadProviders(plugins.Config, plugins.Dir, registryauth.ProvidersConfig{}); err != nil {
			return c, fmt.Errorf("load credential provider plugins: %w", err)
		}
	}
	return c, nil
}

// run removes images that nobody uses until ctx ends.
func (p *pictures) run(ctx context.Context) error {
	if p.guest {
		return nil
	}
	return p.collector.Run(ctx)
}

// settleEvery is how often settle looks. What it clears up hurts nobody until then but a pod
// that cannot pull.
const settleEvery = time.Hour

// settle takes in what became of pulls that were cut off, until ctx ends.
func (p *pictures) settle(ctx context.Context, rt images.Lister, log *slog.Logger) error {
	tick := time.NewTicker(settleEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		if err := p.recover(ctx, rt); err != nil && ctx.Err() == nil {
			log.Warn("what became of image pulls that were cut off is not known", "err", err)
		}
	}
}

// recover takes in what became of pulls that a crash has cut off. It is called before
// the first pull.
func (p *pictures) recover(ctx context.Context, rt images.Lister) error {
	return images.Recover(ctx, rt, p.records)
}
