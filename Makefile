# nodekit: `make help` lists the targets. Two do everything: `make demo` and `make test`.

SHELL       := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

OUT := _out

# The race detector needs cgo, thus gcc.
APT_UNIT   := gcc libc6-dev git
APT_KERNEL := iproute2 nftables
APT_NODE   := containerd runc containernetworking-plugins iptables
# debootstrap and busybox are for the images.
APT_CLUSTER := etcd-server conntrack ipset debootstrap busybox-static

# What guests of hack/vm are made of, and what runs in them.
APT_UML  := user-mode-linux busybox-static kmod procps nftables iptables iproute2 ipset ipvsadm conntrack
APT_QEMU := qemu-system-x86 xz-utils zstd lz4

# Tools of test/tools that the node tests run.
NODE_TOOLS := crictl containerd containerd-shim-runc-v2 ctr
# Tools of test/tools/kubernetes that a cluster runs.
CLUSTER_TOOLS := kube-apiserver kube-controller-manager kube-scheduler kubectl kubelet kube-proxy agnhost
# Packages whose tests start clusters, two at a time: they wait more than they compute.
CLUSTER_TESTS := ./test/conformance/run ./test/cluster/... ./test/heartbeat/... ./test/storage/... ./test/joined/... ./test/kubeadm/... ./test/kubectl/... ./test/record/... ./test/secured/... ./test/flows/... ./test/top/... ./test/soak/...

# Every package but those that need a real node.
UNIT = $(shell go list ./... | grep -vE '/test/(node|crictl)$$')
# Packages with tests of the kernel.
KERNEL = $(shell grep -rl --include='*_kernel_test.go' '^func TestKernel' . | xargs -n1 dirname | sort -u)
# Modules of their own, but those that only list tools.
NESTED = $(filter-out hack/tools test/tools test/tools/kubernetes test/tools/metrics,$(patsubst ./%/go.mod,%,$(shell find . -mindepth 2 -name go.mod -not -path './_*' | sort)))

# What `make cluster` runs: each stock or ours, and the runtime containerd, containerd2 or a socket.
NODES   ?= 2
KUBELET ?= stock
PROXY   ?= stock
BACKEND ?= nftables
RUNTIME ?= containerd
# What `make conformance` runs.
SET     ?= node-conformance

FUZZTIME ?= 20s
BENCHTIME ?= 1s
# The Kubernetes pre-release that `make next` builds against: the newest that Go
# 1.26 builds. Later ones need Go 1.27: NEXT=v0.38.0-beta.0.
NEXT ?= v0.38.0-alpha.0
# What `make apidiff` compares with.
BASE ?= origin/main

say = @printf '\n== %s\n' "$(1)"

.PHONY: help
help: ## list the targets
	@awk -F':.*## ' '/^[a-z][a-z0-9-]*:.*## /{printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: demo
demo: ## static pods on containerd behind a virtual IP, in a namespace of its own (KEEP=1 leaves it running)
	$(call say,demo: installing what is missing)
	@hack/install.sh $(APT_UNIT) $(APT_KERNEL) $(APT_NODE) curl
	$(call say,demo: building)
	@go build -o $(OUT)/demo ./hack/demo
	@exec $(OUT)/demo

.PHONY: cluster
cluster: cluster-tools ## a cluster in namespaces of its own until Ctrl-C (NODES=2 KUBELET=stock|ours PROXY=stock|ours BACKEND=nftables|iptables RUNTIME=containerd|containerd2|<socket> KEEP=1)
	$(call say,cluster)
	@go build -o $(OUT)/cluster ./hack/cluster
	@exec $(OUT)/cluster -nodes $(NODES) -kubelet $(KUBELET) -proxy $(PROXY) -backend $(BACKEND) -runtime $(RUNTIME) $(if $(KEEP),-keep) $(if $(SUITES),-suites) $(ARGS)

.PHONY: cluster-clean
cluster-clean: ## remove the clusters and test nodes that were kept or that a killed program left, or only NAME
	@go run ./hack/cluster -clean $(NAME)

CONFORMANCE = $(OUT)/run-conformance --set $(SET) --kubelet $(KUBELET) --proxy $(PROXY) --backend $(BACKEND) --runtime $(RUNTIME) \
	$(if $(FOCUS),--focus '$(FOCUS)') $(if $(SKIP),--skip '$(SKIP)') $(if $(PROCS),--procs $(PROCS)) $(if $(FRESH),--fresh) $(if $(RESUME),--resume)

.PHONY: conformance
conformance: cluster-tools ## a set of upstream's e2e specs, beside the stock result (SET=node-conformance|node-conformance-slow|conformance|network|zones|quick|standalone|node-suite|node-restarts|node-garbage|node-images|memory|devices|pinning FOCUS= SKIP= KUBELET= PROXY= BACKEND= RUNTIME=containerd|containerd2|<socket> RECORD=1 FRESH=1 RESUME=1)
	$(call say,conformance: $(SET))
	@for tool in ginkgo e2e e2e_node; do hack/tool.sh $$tool test/tools/kubernetes >/dev/null; done
	@go build -o $(OUT)/run-conformance ./test/conformance/cmd
	@$(CONFORMANCE) $(if $(RECORD),--record)

.PHONY: ratchet
ratchet: ## what newly passed in the last run of make conformance must pass from now on (same SET, KUBELET, PROXY, BACKEND, RUNTIME)
	@go build -o $(OUT)/run-conformance ./test/conformance/cmd
	@$(CONFORMANCE) --last --ratchet

.PHONY: conformance-page
conformance-page: ## write docs/conformance.md from the recorded results
	@go run ./test/conformance/cmd --page docs/conformance.md

# How long make soak churns.
FOR ?= 2h

.PHONY: soak
soak: KUBELET = ours
soak: PROXY = ours
soak: cluster-tools ## a node under churn for FOR (2h): nothing leaks, memory is flat, no request fails (KUBELET= PROXY= BACKEND= RUNTIME= RECORD=1 ARGS='-o json')
	$(call say,soak: $(FOR))
	@go build -o $(OUT)/run-soak ./test/soak/cmd
	@exec $(OUT)/run-soak -for $(FOR) -kubelet $(KUBELET) -proxy $(PROXY) -backend $(BACKEND) -runtime $(RUNTIME) $(if $(RECORD),-record) $(ARGS)

.PHONY: support-page
support-page: ## write docs/support.md, what becomes of each field of pods, Services and EndpointSlices
	@go test -count=1 ./test/support -run '^TestPage$$' -update

.PHONY: cluster-tools
cluster-tools:
	$(call say,what a cluster needs)
	@hack/install.sh $(APT_UNIT) $(APT_KERNEL) $(APT_NODE) $(APT_CLUSTER)
	@for tool in $(CLUSTER_TOOLS); do hack/tool.sh $$tool test/tools/kubernetes >/dev/null; done
	@hack/tool.sh coredns test/tools >/dev/null
	@case $(RUNTIME) in containerd2) for tool in $(NODE_TOOLS) runc; do hack/tool.sh $$tool test/tools >/dev/null; done;; esac

.PHONY: test
test: lint test-unit test-kernel test-guest test-node test-cluster test-nested ## install what the tests need and run them all
	@for report in $(OUT)/flaky/*; do [ ! -s "$$report" ] || { printf '\n== %s: failed, and passed in a second run\n' "$${report##*/}"; cat "$$report"; }; done
	$(call say,all tests passed)

.PHONY: test-unit
test-unit: ## every package under the race detector, nothing outside the process needed
	$(call say,unit tests)
	@hack/install.sh $(APT_UNIT)
	@go vet ./...
	@hack/gotest.sh $@ '$(UNIT)' -race -timeout 15m -skip '^TestKernel'

.PHONY: test-kernel
test-kernel: ## packets through rules in network namespaces (root)
	$(call say,kernel tests)
	@hack/install.sh $(APT_UNIT) $(APT_KERNEL) $(APT_NODE)
	@REQUIRE_KERNEL=1 hack/gotest.sh $@ '$(KERNEL)' -count=1 -timeout 15m -run '^TestKernel'

# Go tests as root in a guest with a kernel of its own: hack/vm/README.md.
VM       = CGO_ENABLED=0 REQUIRE_KERNEL=1 go test -count=1 -timeout 30m -exec
UML      = '$(CURDIR)/$(OUT)/vm -engine uml -timeout 30m'
QEMU     = '$(CURDIR)/$(OUT)/vm -engine qemu -timeout 30m'
QEMU61   = '$(CURDIR)/$(OUT)/vm -engine qemu:linux-image-cloud-amd64 -timeout 30m'
VM_NODE  = '$(CURDIR)/$(OUT)/vm -engine uml -timeout 30m -file containerd,containerd-shim-runc-v2,ctr,runc,/hog=$(CURDIR)/$(OUT)/hog'
# What of proxier/nftables make test-vm runs; make test-long runs all of it.
VM_NFT  ?= 'TestKernel(ClusterIP|Masquerade|External|SessionAffinity|NftLists|Cleanup|Random)'
# What of proxier/ipvs make test-guest runs; make test-vm runs all of it.
VM_IPVS ?= 'TestInGuest(Schedulers|EndpointsDrain|StartsOver|VirtualServers)'

.PHONY: vm
vm: # builds hack/vm; what runs in guests has no libraries
	@hack/install.sh $(APT_UNIT) $(APT_KERNEL) $(APT_NODE) $(APT_UML)
	@CGO_ENABLED=0 go build -o $(OUT)/vm ./hack/vm

.PHONY: test-guest
test-guest: vm ## cgroup v2, IPVS, SCTP, pods, evictions and a reboot in a guest of user-mode Linux
	$(call say,tests in a guest)
	@$(VM) $(UML) -run '^TestInGuest' ./hack/vm
	@$(VM) $(UML) -run '^TestInGuest' ./examples/kube-proxy/proxy
	@$(VM) $(UML) -run $(VM_IPVS) ./proxier/ipvs
	@CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o $(OUT)/hog ./hack/images/hog
	@$(VM) $(VM_NODE) -run '^TestInGuest' ./test/guest
	@$(VM) '$(CURDIR)/$(OUT)/vm -engine uml -timeout 30m -env NODEKIT_BOOT=first -out $(CURDIR)/$(OUT)' -run '^TestReboot$$' ./test/guest
	@$(VM) '$(CURDIR)/$(OUT)/vm -engine uml -timeout 30m -env NODEKIT_BOOT=second -file /disk.tar=$(CURDIR)/$(OUT)/disk.tar' -run '^TestReboot$$' ./test/guest

.PHONY: test-vm
test-vm: test-guest ## kernels that the host lacks: guests of user-mode Linux 6.1 and, by qemu, Linux 6.12 and 6.1
	$(call say,kernel tests in guests)
	@hack/install.sh $(APT_QEMU)
	@NODEKIT_TEST_VM='uml qemu' go test -count=1 -timeout 30m ./hack/vm
	@$(VM) $(UML) -run '^TestKernel' ./internal/netnstest ./allocatable/cgroups
	@$(VM) $(QEMU) -run '^TestInGuest' ./hack/vm
	@$(VM) $(QEMU) -run $(VM_NFT) ./proxier/nftables
	@for engine in $(QEMU) $(QEMU61); do \
		$(VM) "$$engine" -run 'TestKernelPacketFlows/(cluster_IP|no_endpoints)$$' ./proxier/nftables; done # with SCTP
	@$(VM) $(UML) -run '^TestInGuest' ./proxier/ipvs
	@$(VM) $(QEMU) -run '^TestInQemu' -skip '/churn$$' ./proxier/ipvs # that of a thousand Services, a quarter of an hour: make test-proxies
	@$(VM) $(QEMU) -run '^TestInQemu' ./examples/kube-proxy

.PHONY: test-proxies
test-proxies: vm ## the table of packet flows in guests, with SCTP: ipvs and nftables on Linux 6.12, iptables-legacy on 6.1; a change of mode
	$(call say,packet flows of each mode)
	@hack/install.sh $(APT_QEMU)
	@$(VM) $(QEMU) -run '^TestInQemuPacketFlows$$' ./proxier/ipvs
	@$(VM) $(QEMU) -run '^TestInQemuNoConnection' ./examples/kube-proxy/proxy
	@$(VM) $(UML) -run '^TestKernelPacketFlows$$/legacy' ./proxier/iptables
	@$(VM) $(QEMU) -run '^TestKernelPacketFlows$$' ./proxier/nftables

.PHONY: test-node
test-node: ## pods on private containerds, Debian's and a current one (root)
	$(call say,node tests)
	@hack/install.sh $(APT_UNIT) $(APT_KERNEL) $(APT_NODE)
	@for tool in $(NODE_TOOLS) runc; do hack/tool.sh $$tool test/tools >/dev/null; done
	@REQUIRE_KERNEL=1 NODEKIT_TEST_TOOLS=1 hack/gotest.sh $@ './test/node/... ./test/crictl/...' -count=1 -timeout 20m

.PHONY: test-cluster
test-cluster: cluster-tools ## clusters of stock nodes and of ours: forty specs with ours, outages, reboots, storage drivers, API calls, kubeadm; nothing is left (root)
	@for tool in ginkgo e2e kubeadm; do hack/tool.sh $$tool test/tools/kubernetes >/dev/null; done
	@hack/tool.sh metrics-server test/tools/metrics >/dev/null
	@for tool in $(NODE_TOOLS) runc; do hack/tool.sh $$tool test/tools >/dev/null; done
	$(call say,cluster tests)
	@REQUIRE_KERNEL=1 NODEKIT_TEST_TOOLS=1 hack/gotest.sh $@ '$(CLUSTER_TESTS)' -count=1 -p 2 -timeout 20m

.PHONY: test-nested
test-nested: ## the nested modules
	$(call say,nested modules)
	@[ -n "$(NESTED)" ] || { echo "no nested module found"; exit 1; }; for m in $(NESTED); do (cd $$m && go vet ./... && go test -timeout 15m ./...); done

.PHONY: test-long
test-long: ## the tests that make days of a node's life, in full length
	$(call say,long tests)
	@NODEKIT_LONG=1 go test -timeout 60m ./probes/...
	@NODEKIT_LONG=1 REQUIRE_KERNEL=1 go test -count=1 -timeout 30m -run 'TestKernel(DayOfChurn|LargeTable)' ./examples/kube-proxy/proxy ./proxier/conntrack
	@for tool in $(NODE_TOOLS); do hack/tool.sh $$tool test/tools >/dev/null; done
	@NODEKIT_LONG=1 NODEKIT_TEST_TOOLS=1 REQUIRE_KERNEL=1 go test -count=1 -timeout 60m -run 'Churn|TakeOver|Stories' ./test/node ./test/replay
	@$(MAKE) --no-print-directory cluster-tools
	@NODEKIT_LONG=1 NODEKIT_TEST_TOOLS=1 REQUIRE_KERNEL=1 go test -count=1 -timeout 60m ./test/flows ./test/joined
	@$(MAKE) --no-print-directory vm && hack/install.sh $(APT_QEMU)
	@$(VM) $(QEMU) -run '^TestKernel' ./proxier/nftables

.PHONY: lint
lint: ## golangci-lint with .golangci.yml
	$(call say,lint)
	@$$(hack/tool.sh golangci-lint) run ./...

.PHONY: verify
verify: lint arm64 next apidiff govulncheck ## what a reviewer runs before a release
	$(call say,go.mod and go.sum are tidy)
	@go mod tidy -diff

.PHONY: fuzz
fuzz: ## each fuzz test for FUZZTIME (20s)
	@grep -rl --include='*_test.go' '^func Fuzz' . | while read -r file; do \
		grep -o '^func Fuzz[A-Za-z0-9_]*' "$$file" | sed 's/^func //' | while read -r name; do \
			printf '%-50s %s\n' "$$(dirname "$$file")" "$$name"; \
			go test -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZTIME) "$$(dirname "$$file")" </dev/null; \
		done; \
	done

.PHONY: bench
bench: ## benchmarks of every package, BENCHTIME (1s) each; those of the kernel need root
	@go test -run '^$$' -bench . -benchmem -benchtime $(BENCHTIME) ./lease/... ./podworker/... ./proxier/... ./probes/... ./runtime/... ./staticpods/...

.PHONY: bench-kubelet
bench-kubelet: ## the example kubelet beside the stock one: a burst of pods, many idle pods (root)
	@cd hack/bench/kubelet && go run . burst && go run . scale

.PHONY: bench-ipvs
bench-ipvs: vm ## kube-proxy in mode ipvs beside the stock one, in a guest of Linux 6.12 (SERVICES=1000)
	@hack/install.sh $(APT_QEMU)
	@CGO_ENABLED=0 go build -ldflags '-s -w' -o $(OUT)/kube-proxy ./examples/kube-proxy
	@cd hack/bench && CGO_ENABLED=0 go build -o $(CURDIR)/$(OUT)/bench-ipvs ./ipvs
	@exec $(OUT)/vm -engine qemu -memory 3000 -timeout 3h \
		-file /bench/stock=$$(hack/tool.sh kube-proxy test/tools/kubernetes),/bench/ours=$(CURDIR)/$(OUT)/kube-proxy \
		$(OUT)/bench-ipvs -services $(or $(SERVICES),1000)

.PHONY: arm64
arm64: ## build everything for linux/arm64
	$(call say,build for arm64)
	@GOARCH=arm64 CGO_ENABLED=0 go build ./...

.PHONY: next
next: ## build against the next Kubernetes minor (NEXT)
	$(call say,build against k8s.io/* $(NEXT))
	@mkdir -p $(OUT) && cp go.mod $(OUT)/next.mod && cp go.sum $(OUT)/next.sum
	@for module in $$(awk '$$1 ~ /^k8s.io\// && $$2 ~ /^v0[.]/ && $$2 !~ /-/ {print $$1}' go.mod); do \
		go get -modfile=$(OUT)/next.mod $$module@$(NEXT) 2>/dev/null || echo "$$module stays: $(NEXT) can't be had"; \
	done
	@grep -q 'k8s.io/api $(NEXT)' $(OUT)/next.mod || { echo "k8s.io/api $(NEXT) can't be had, or needs a newer Go than $$(go env GOVERSION)"; exit 1; }
	@go vet -modfile=$(OUT)/next.mod ./...

.PHONY: apidiff
apidiff: ## incompatible changes of the public API against BASE (origin/main)
	$(call say,API changes against $(BASE))
	@hack/apidiff.sh $(BASE)

.PHONY: govulncheck
govulncheck: ## known vulnerabilities in what the code calls; says so where the database can't be reached
	$(call say,known vulnerabilities)
	@hack/govulncheck.sh $(NESTED)

.PHONY: update
update: ## newest versions of all dependencies, in every module
	@go get -u ./... && go mod tidy
	@for m in hack/tools test/tools test/tools/metrics $(NESTED); do (cd $$m && go get -u ./... tool && go mod tidy); done

.PHONY: clean
clean: ## remove what the targets built in this folder
	@rm -rf $(OUT)
