import type { Group } from "../example";

export const CLUSTER: Group = {
  name: "Cluster",
  examples: [
    {
      title: "gpu_alloc_map",
      query: `# The held share of each GPU of one agent.
query AllocMap($agent_id: String!) {
  agent(agent_id: $agent_id) {
    gpu_alloc_map
  }
}
`,
      variables: `{ "agent_id": "<first agent>" }`,
    },
    {
      title: "agents",
      query: `# Agents, their devices, and the holders of each device.
query Agents {
  agents(first: 20) {
    total_count
    edges {
      node {
        id
        state
        occupied { slot amount }
        devices {
          name
          used
          free
          holders { user session_id share until }
        }
      }
    }
  }
}
`,
    },
    {
      title: "cluster",
      query: `# Capacity and allocation of the cluster, by slot, node and GPU, and its Ray cluster, if any.
query Cluster {
  cluster {
    total_gpus
    available_gpus
    capacity { slot total available allocated }
    nodes { node_id hostname gpu_count gpu_type agents }
    gpus { id name available allocated utilization }
    ray { head_node connected workers reason }
  }
}
`,
    },
    {
      title: "pools",
      query: `# The pools, which are parts of the cluster that sessions select by name: capacity, free amounts and waiting sessions.
query Pools {
  pools {
    name
    schedulable
    agents
    total_gpus
    available_gpus
    allocated_gpus
    capacity { slot total available allocated }
    running
    total_queued
  }
}
`,
    },
    {
      title: "doctor",
      query: `# Compares what runs on every agent with what was allocated. Changes nothing.
# For operators.
query Doctor {
  doctor {
    asked
    silent
    differences { kind agent_id subject evidence since repair }
  }
}
`,
    },
    {
      title: "orchestrator",
      query: `# The leading server, and whether scheduling is on.
query Orchestrator {
  orchestrator { role address leader_address epoch leads_since state stopped_by note }
}
`,
    },
    {
      title: "idle behind quotas",
      query: `# GPUs that are free while quotas hold waiting sessions back; null when there are none.
query IdleBehindQuotas {
  idle_behind_quotas { gpus_free sessions_held_back sessions_waiting message }
}
`,
    },
    {
      title: "me",
      query: `# The signed-in user.
query Me {
  me { name role projects unix_name key_id }
}
`,
    },
  ],
};
