package config

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"time"

	"k8s.io/kube-proxy/config/v1alpha1"

	"github.com/nodekit-go/nodekit/internal/strictyaml"
)

// apiVersion and kind are those of the file.
const (
	apiVersion = "kubeproxy.config.k8s.io/v1alpha1"
	kind       = "KubeProxyConfiguration"
)

// Defaults of kube-proxy
// (https://kubernetes.io/docs/reference/config-api/kube-proxy-config.v1alpha1/).
const (
	DefaultHealthzPort      = 10256
	DefaultMetricsPort      = 10249
	DefaultMasqueradeBit    = 14
	DefaultSyncPeriod       = 30 * time.Second
	DefaultOOMScoreAdj      = -999
	DefaultQPS              = 5
	DefaultBurst            = 10
	DefaultContentType      = "application/vnd.kubernetes.protobuf"
	DefaultMaxPerCore       = 32768
	DefaultConntrackMin     = 131072
	DefaultEstablished      = 24 * time.Hour
	DefaultCloseWait        = time.Hour
	DefaultConfigSyncPeriod = 15 * time.Minute
)

// LocalMode says how traffic of this node's pods is told from other traffic.
type LocalMode = v1alpha1.LocalMode

// The values of detectLocalMode.
const (
	ClusterCIDR         LocalMode = "ClusterCIDR"
	NodeCIDR            LocalMode = "NodeCIDR"
	BridgeInterface     LocalMode = "BridgeInterface"
	InterfaceNamePrefix LocalMode = "InterfaceNamePrefix"
)

// Mode is how Services are programmed.
type Mode = v1alpha1.ProxyMode

// The values of mode. Empty leaves the choice to the program.
const (
	IPTables Mode = "iptables"
	IPVS     Mode = "ipvs"
	NFTables Mode = "nftables"
)

// Config is a file that could be read.
type Config struct {
	// KubeProxyConfiguration is the file with defaults in the fields that nodekit
	// honours; Honoured lists them. Mode and minSyncPeriod of nftables and
	// iptables stay as they are: empty and 0 leave the choice to the program.
	v1alpha1.KubeProxyConfiguration
	// ClusterCIDRs is clusterCIDR, parsed.
	ClusterCIDRs []netip.Prefix
	// Problems are fields that have no effect, by line.
	Problems []Problem
}

// Problem is a field that has no effect.
type Problem struct {
	// Line counts from 1.
	Line int
	// Field is its path, such as "conntrack.maxPerCore".
	Field string
	// Reason says why.
	Reason string
}

// String returns "line N: field: reason".
func (p Problem) String() string { return fmt.Sprintf("line %d: %s: %s", p.Line, p.Field, p.Reason) }

// Error is a line of the file that keeps it from being used.
type Error struct {
	Line   int    // counts from 1; 0 means unknown
	Field  string // empty if it is not about one
	Reason string
}

// Error returns "line N: field: reason".
func (e *Error) Error() string {
	s := e.Reason
	if e.Field != "" {
		s = e.Field + ": " + s
	}
	if e.Line > 0 {
		s = fmt.Sprintf("line %d: %s", e.Line, s)
	}
	return s
}

// Complete fills in defaults and checks the values of cfg, for a program that has
// set them from its flags. The error joins an *Error for each that is wrong.
func Complete(cfg *Config) error {
	setDefaults(cfg)
	v := validator{}
	v.check(cfg)
	return errors.Join(v.errs...)
}

// Load reads the file at path.
func Load(path string) (*Config, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	cfg, err := Decode(data)
	if err != nil {
		return nil, fmt.Errorf("read configuration %s: %w", path, err)
	}
	return cfg, nil
}

// Default returns what an empty file means.
func Default() *Config {
	cfg := &Config{}
	setDefaults(cfg)
	return cfg
}

// Decode reads the content of a file: one document of YAML or JSON. The error
// joins an *Error for each line that is wrong.
func Decode(data []byte) (*Config, error) {
	docs, err := strictyaml.Parse(data)
	if err != nil {
		if syntax, ok := errors.AsType[*strictyaml.SyntaxError](err); ok {
			return nil, &Error{Line: syntax.Line, Reason: syntax.Message}
		}
		return nil, &Error{Reason: err.Error()}
	}
	if len(docs) != 1 {
		return nil, &Error{Reason: fmt.Sprintf("%d documents: there must be one, a %s", len(docs), kind)}
	}
	doc := docs[0]
	var head struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
	}
	if err := doc.Decode(&head); err != nil || head.APIVersion != apiVersion || head.Kind != kind {
		return nil, &Error{Line: doc.LineOf("kind"), Reason: fmt.Sprintf("is %q %q, must be %q %q", head.APIVersion, head.Kind, apiVersion, kind)}
	}
	return decode(doc)
}

func decode(doc strictyaml.Document) (*Config, error) {
	cfg := &Config{}
	var wrong []error
	for _, issue := range doc.Check(&cfg.KubeProxyConfiguration) {
		if issue.Kind == strictyaml.WrongType {
			wrong = append(wrong, &Error{Line: issue.Line, Field: issue.Field, Reason: issue.Message})
			continue
		}
		cfg.Problems = append(cfg.Problems, Problem{Line: issue.Line, Field: issue.Field, Reason: issue.Message})
	}
	if len(wrong) > 0 {
		return nil, errors.Join(wrong...)
	}
	if err := doc.Decode(&cfg.KubeProxyConfiguration); err != nil {
		return nil, &Error{Line: doc.Line, Reason: err.Error()}
	}
	setDefaults(cfg)
	v := validator{doc: &doc}
	v.check(cfg)
	if len(v.errs) > 0 {
		return nil, errors.Join(v.errs...)
	}
	cfg.Problems = append(cfg.Problems, ineffective(doc, cfg.Mode, cfg.Problems)...)
	sortByLine(cfg.Problems)
	return cfg, nil
}
