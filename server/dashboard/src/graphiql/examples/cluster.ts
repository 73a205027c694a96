import type { Group } from "../example";

export const CLUSTER: Group = {
  name: "Cluster",
  examples: [
    {
      title: "gpu_alloc_map",
      query: `# How much of each GPU of one agent is held.
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
      query: `# Agents, and who holds which part of which device.
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
      query: `# What the cluster has and has given, by slot, node and GPU, and the Ray cluster it belongs to, if any.
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
      query: `# The parts of the cluster that sessions choose by name: what is in them, what is free, and who waits for it.
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
      query: `# Asks every agent what runs there, and names what differs from what was granted. Changes nothing.
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
      query: `# Which server leads, and whether it places sessions.
query Orchestrator {
  orchestrator { role address leader_address epoch leads_since state stopped_by note }
}
`,
    },
    {
      title: "me",
      query: `# Who you are here.
query Me {
  me { name role projects unix_name key_id }
}
`,
    },
  ],
};
