package podspec

import "strings"

// What a kubelet says of pods that ask for what a node lacks. Everything else that is not
// supported here is of this project's own.
const (
	reasonUnsupported = "UnsupportedField"
	reasonAppArmor    = "AppArmor"
	reasonGroups      = "SupplementalGroupsPolicyNotSupported"

	messageAppArmor = "Cannot enforce AppArmor: AppArmor is not enabled on the host"
	messageGroups   = "SupplementalGroupsPolicy=Strict is not supported in this node"
)

// Reason returns what the status of the refused pod says, in one word and in a sentence:
// the kubelet's words where it would refuse the pod for the same.
func (e *RefusedError) Reason() (reason, message string) {
	for i, field := range e.Fields {
		own, words := reasonOf(field)
		if i > 0 && own != reason {
			return reasonUnsupported, e.Error()
		}
		reason, message = own, words
	}
	if reason == reasonUnsupported || reason == "" {
		return reasonUnsupported, e.Error()
	}
	return reason, message
}

// reasonOf returns the kubelet's words for one field, "field: why".
func reasonOf(field string) (reason, message string) {
	path, _, _ := strings.Cut(field, ": ")
	switch {
	case strings.HasSuffix(path, ".appArmorProfile"), strings.HasPrefix(path, "metadata.annotations["+appArmorPrefix):
		return reasonAppArmor, messageAppArmor
	case strings.HasSuffix(path, ".supplementalGroupsPolicy"):
		return reasonGroups, messageGroups
	}
	return reasonUnsupported, ""
}
