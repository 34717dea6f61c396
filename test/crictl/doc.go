// Package crictl holds tests that drive examples/fakecri with crictl, the command-line
// client of Kubernetes' cri-tools. They need no root, and NODEKIT_TEST_TOOLS=1, which
// allows them to build crictl from test/tools once.
package crictl
