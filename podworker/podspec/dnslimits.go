package podspec

import (
	"fmt"
	"strings"
)

// maxDomain is the longest name of a domain (RFC 1123).
const maxDomain = 253

// clusterSearches is how many domains of the cluster come before those of the node in the
// search list of a pod.
const clusterSearches = 3

// CheckHost returns what of the resolver configuration of the node, a file at a path, is
// more than pods can have, empty if it is not. The words are those of the kubelet's node
// event CheckLimitsForResolvConf.
func (d *DNS) CheckHost(path string) string {
	most := maxSearches
	if d.ClusterDomain != "" {
		most -= clusterSearches
	}
	if len(d.Host.Searches) > most {
		return fmt.Sprintf("Resolv.conf file '%s' contains search line consisting of more than %d domains!", path, most)
	}
	for _, name := range d.Host.Searches {
		if len(name) > maxDomain {
			return fmt.Sprintf("Resolv.conf file %q contains a search path which length is more than allowed %d chars!", path, maxDomain)
		}
	}
	if len(strings.Join(d.Host.Searches, " ")) > maxSearchChars {
		return fmt.Sprintf("Resolv.conf file '%s' contains search line which length is more than allowed %d chars!", path, maxSearchChars)
	}
	return ""
}
