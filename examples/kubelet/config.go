package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"

	kubeletconfig "k8s.io/kubelet/config/v1beta1"
	"sigs.k8s.io/yaml"

	"github.com/nodekit-go/nodekit/allocatable/config"
	"github.com/nodekit-go/nodekit/examples/kubelet/node"
)

// honoured lists the fields of the configuration that this program acts on: those of a
// Node, and its own.
func honoured() []string {
	return slices.Concat(node.Honoured(), []string{
		"failSwapOn",
		"featureGates", // reported one by one
		"logging.format",
		"logging.verbosity",
		"makeIPTablesUtilChains",
		"maxOpenFiles",
		"oomScoreAdj",
		"protectKernelDefaults",
		"rotateCertificates",
	})
}

// read reads the configuration with all that is wrong with it, or has no effect.
func (o *options) read() (*kubeletconfig.KubeletConfiguration, []config.Problem, error) {
	cfg, problems, err := config.LoadSources(config.Sources{File: o.config, DropIns: o.configDir, Overrides: o.overrides()}, honoured())
	if err != nil {
		return nil, nil, err
	}
	return cfg, append(problems, checkGates(cfg)...), nil
}

// load reads the configuration; what is wrong is the error.
func (o *options) load() (*kubeletconfig.KubeletConfiguration, []config.Problem, error) {
	cfg, problems, err := o.read()
	if err != nil {
		return nil, nil, err
	}
	if err := config.Err(problems); err != nil {
		return nil, nil, fmt.Errorf("configuration:\n%w", err)
	}
	return cfg, problems, nil
}

// warn logs what has no effect.
func (o *options) warn(log *slog.Logger, problems []config.Problem) {
	for _, i := range o.idle {
		log.Warn("flag has no effect", "flag", "--"+i.flag, "why", i.why)
	}
	for _, p := range problems {
		log.Warn("configuration", "problem", p.String())
	}
}

// errInvalid says that what was looked at is not fine, which has been printed.
var errInvalid = errors.New("the configuration is not valid")

// validateConfig prints what is wrong with the configuration, and what has no effect.
func (o *options) validateConfig(out io.Writer) error {
	cfg, problems, err := o.read()
	if err != nil {
		return err
	}
	for _, p := range problems {
		fmt.Fprintf(out, "%s: %s\n", p.Severity, p)
	}
	for _, i := range o.idle {
		fmt.Fprintf(out, "%s: --%s: has no effect: %s\n", config.Warning, i.flag, i.why)
	}
	wrong := o.checkFlags(cfg)
	if wrong != nil {
		fmt.Fprintf(out, "%s: %s\n", config.Error, wrong)
	}
	if config.Err(problems) != nil || wrong != nil {
		return errInvalid
	}
	_, err = fmt.Fprintln(out, "the configuration is valid")
	return err
}

// checkFlags says which of the flags that set no field of the configuration would end the
// program.
func (o *options) checkFlags(cfg *kubeletconfig.KubeletConfiguration) error {
	_, _, identity := o.identity()
	_, store := o.store()
	_, reach := o.reachable()
	_, log := o.logger(io.Discard, cfg)
	return errors.Join(identity, store, reach, log)
}

// printDefaults prints the configuration that holds without any setting.
func printDefaults(out io.Writer) error {
	k := kubeletconfig.KubeletConfiguration{}
	k.APIVersion, k.Kind = config.APIVersion, config.Kind
	config.SetDefaults(&k)
	data, err := yaml.Marshal(k)
	if err != nil {
		return fmt.Errorf("print defaults: %w", err)
	}
	_, err = out.Write(data)
	return err
}

// logConfiguration tells the log what all files and flags come to, without the values of
// headers, which may be passwords.
func logConfiguration(log *slog.Logger, k *kubeletconfig.KubeletConfiguration) {
	k = k.DeepCopy()
	k.APIVersion, k.Kind = config.APIVersion, config.Kind
	for name := range k.StaticPodURLHeader {
		k.StaticPodURLHeader[name] = []string{"<masked>"}
	}
	data, err := yaml.Marshal(k)
	if err != nil {
		log.Warn("the configuration cannot be shown", "err", err)
		return
	}
	// The words are those of the kubelet, for who looks for them.
	log.Info("Effective KubeletConfiguration", "config", string(data))
}
