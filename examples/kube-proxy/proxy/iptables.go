package proxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
)

// removeIPTables removes the chains of kube-proxy's iptables and ipvs modes and the jumps
// to them, by the commands of the host. A command that is not there has left nothing.
func removeIPTables(ctx context.Context) error {
	var errs []error
	for _, command := range []string{"iptables", "ip6tables"} {
		if _, err := exec.LookPath(command + "-save"); err != nil {
			continue
		}
		saved, err := exec.CommandContext(ctx, command+"-save").Output()
		if err != nil {
			errs = append(errs, fmt.Errorf("list the rules of %s: %w", command, err))
			continue
		}
		input := iptablesCleanup(string(saved))
		if input == "" {
			continue
		}
		cmd := exec.CommandContext(ctx, command+"-restore", "-w", "5", "--noflush")
		cmd.Stdin = strings.NewReader(input)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		if err := cmd.Run(); err != nil {
			errs = append(errs, fmt.Errorf("remove the chains of %s: %w: %s", command, err, bytes.TrimSpace(stderr.Bytes())))
		}
	}
	return errors.Join(errs...)
}

// fixedChains are those of kube-proxy by table; beside them go all whose names begin
// with one of hashedChains. KUBE-FIREWALL is the kubelet's, too, and stays.
func fixedChains() map[string][]string {
	return map[string][]string{
		"nat":    {"KUBE-SERVICES", "KUBE-NODEPORTS", "KUBE-POSTROUTING", "KUBE-MARK-MASQ", "KUBE-PROXY-CANARY", "KUBE-LOAD-BALANCER", "KUBE-NODE-PORT"},
		"filter": {
			"KUBE-SERVICES", "KUBE-EXTERNAL-SERVICES", "KUBE-FORWARD", "KUBE-NODEPORTS", "KUBE-PROXY-FIREWALL", "KUBE-PROXY-CANARY",
			"KUBE-NODE-PORT", "KUBE-SOURCE-RANGES-FIREWALL", "KUBE-IPVS-FILTER", "KUBE-IPVS-OUT-FILTER",
		},
		"mangle": {"KUBE-PROXY-CANARY"},
	}
}

func hashedChains() []string {
	return []string{"KUBE-SVC-", "KUBE-SVL-", "KUBE-EXT-", "KUBE-FW-", "KUBE-SEP-"}
}

// iptablesCleanup returns what to give to iptables-restore, in the light of what
// iptables-save printed: jumps to kube-proxy's chains are deleted, then the chains.
// Empty means that there is nothing to do.
func iptablesCleanup(saved string) string {
	var out strings.Builder
	table, jumps := "", []string{}
	var chains []string
	owned := func(chain string) bool {
		if slices.Contains(fixedChains()[table], chain) {
			return true
		}
		return table == "nat" && slices.ContainsFunc(hashedChains(), func(p string) bool { return strings.HasPrefix(chain, p) })
	}
	for line := range strings.Lines(saved) {
		line = strings.TrimRight(line, "\n")
		switch {
		case strings.HasPrefix(line, "*"):
			table, jumps, chains = line[1:], nil, nil
		case strings.HasPrefix(line, ":"):
			if name, _, _ := strings.Cut(line[1:], " "); owned(name) {
				chains = append(chains, name)
			}
		case strings.HasPrefix(line, "-A "):
			from, target := ruleEnds(line)
			if owned(target) && !owned(from) {
				jumps = append(jumps, "-D"+line[2:])
			}
		case line == "COMMIT" && len(chains)+len(jumps) > 0:
			writeCleanup(&out, table, chains, jumps)
		}
	}
	return out.String()
}

// writeCleanup flushes the chains by naming them, so that none holds another.
func writeCleanup(out *strings.Builder, table string, chains, jumps []string) {
	fmt.Fprintf(out, "*%s\n", table)
	for _, c := range chains {
		fmt.Fprintf(out, ":%s - [0:0]\n", c)
	}
	for _, j := range jumps {
		fmt.Fprintln(out, j)
	}
	for _, c := range chains {
		fmt.Fprintf(out, "-X %s\n", c)
	}
	fmt.Fprintln(out, "COMMIT")
}

// ruleEnds returns the chain that a rule is in and the one it leads to, if any.
func ruleEnds(line string) (from, target string) {
	words := strings.Fields(line)
	for i, w := range words {
		if (w == "-j" || w == "-g") && i+1 < len(words) {
			target = words[i+1]
		}
	}
	return words[min(1, len(words)-1)], target
}
