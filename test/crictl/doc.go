// Package crictl holds tests that drive examples/fakecri with crictl, the command-line
// client of Kubernetes' cri-tools. They need no root, and crictl from test/tools, which
// hack/tool.sh builds once.
package crictl
