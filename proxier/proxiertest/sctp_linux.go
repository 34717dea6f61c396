package proxiertest

import (
	"github.com/nodekit-go/nodekit/internal/netnstest"
	"github.com/nodekit-go/nodekit/proxier"
)

// protocols are those of a World's Services. Many kernels lack SCTP.
func protocols() []proxier.Protocol {
	all := []proxier.Protocol{proxier.TCP, proxier.UDP}
	if netnstest.HasSCTP() {
		all = append(all, proxier.SCTP)
	}
	return all
}
