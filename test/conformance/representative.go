package conformance

// representativeSpecs matches forty specs of all that a node does, for make test. They have
// passed in every recorded run, take seconds, and none of them fails because a busy
// machine lets it wait.
func representativeSpecs() []string {
	return []string{
		// Pods: their life, exec, logs, environment, names.
		`Pods should be submitted and removed`,
		`Pods should be updated`,
		`Pods should get a host IP`,
		`Pods should allow activeDeadlineSeconds to be updated`,
		`Pods should support remote command execution over websockets`,
		`Pods should support retrieving logs from the container over websockets`,
		`Pods should support pod readiness gates`,
		`Pods should contain environment variables for services`,
		`Ephemeral Containers will start an ephemeral container in an existing pod`,
		`KubeletManagedEtcHosts should test kubelet managed /etc/hosts file`,
		`NodeLease NodeLease the kubelet should create and update a lease`,
		// Probes and hooks.
		`Probing container should be restarted with a /healthz http liveness probe`,
		`Container Lifecycle Hook when create a pod with lifecycle hook should execute poststart exec hook properly`,
		`Container Lifecycle Hook when create a pod with lifecycle hook should execute prestop http hook properly`,
		// Init containers, sidecars, how containers end.
		`InitContainer should invoke init containers on a RestartAlways pod`,
		`InitContainer should not start app containers and fail the pod if init containers fail on a RestartNever pod`,
		`Probing restartable init container should be restarted with a /healthz http liveness probe`,
		`Container Runtime blackbox test on terminated container should report termination message from log output`,
		// Environment and volumes.
		`ConfigMap should be consumable via environment variable`,
		`Downward API should provide pod name, namespace and IP address as env vars`,
		`Variable Expansion should allow substituting values in a container's args`,
		`EmptyDir volumes should support \(root,0644,tmpfs\)`,
		`HostPath should support subPath`,
		`Secrets should be consumable from pods in volume with mappings and Item Mode set`,
		`Downward API volume should update labels on modification`,
		`Projected combined should project all components that make up the projection API`,
		// Security context.
		`Security Context When creating a container with runAsUser should run the container with uid 65534`,
		`Security Context When creating a container with runAsNonRoot should not run with an explicit root user ID`,
		`Security Context when creating containers with AllowPrivilegeEscalation should not allow privilege escalation when false`,
		// Services, EndpointSlices, names.
		`DNS should provide DNS for the cluster \[Conformance\]`,
		`Networking Granular Checks: Pods should function for intra-pod communication: http`,
		`Services should serve a basic endpoint from pods`,
		`Services should be able to create a functioning NodePort service \[Conformance\]`,
		`Services should have session affinity work for service with type clusterIP`,
		`Services should allow pods to hairpin back to themselves through services`,
		`EndpointSlice should support a Service with multiple ports specified in multiple EndpointSlices`,
		// Controllers.
		`Deployment RollingUpdateDeployment should delete old pods and create new ones`,
		`ReplicaSet should serve a basic image on each replica with a public image`,
		`StatefulSet Basic StatefulSet functionality \[StatefulSetBasic\] should have a working scale subresource`,
		`Job should create pods for an Indexed job with completion indexes and specified hostname`,
	}
}
