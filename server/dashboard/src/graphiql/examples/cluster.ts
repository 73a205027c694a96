import type { Group } from "../example";

export const CLUSTER: Group = {
  name: "Cluster",
  examples: [
    {
      title: "gpu_alloc_map",
      page: "concepts/devices.html",
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
      title: "who uses what",
      page: "start/from-a-spreadsheet.html#step-by-step",
      query: `# Who uses which GPU now, whoever started the processes; and the hours of this week, where they are recorded.
query WhoUsesWhat {
  observed_gpus { hostname name utilization_pct people { user processes } sessions }
  observed_week { week gpu_hours used_hours idle_hours people { user gpu_hours idle_hours fair_hours } }
}
`,
    },
    {
      title: "fair shares",
      page: "concepts/fair-share.html",
      query: `# Each user's share of the usage that counts, their entitlement, and what would move their sessions up.
query FairShares {
  fair_shares { project user share entitlement gpu_hours_decayed advice }
}
`,
    },
    {
      title: "who holds what",
      page: "concepts/devices.html",
      query: `# Who holds which part of which GPU, since when and until when.
query WhoHoldsWhat {
  agents(first: 20) {
    edges {
      node {
        hostname
        devices {
          name
          model
          free
          holders { user session_id share since until }
        }
      }
    }
  }
}
`,
    },
    {
      title: "agents",
      page: "concepts/sessions.html#agent-states",
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
      page: "concepts/devices.html",
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
      page: "using/lists.html#pools-and-projects",
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
      page: "operating/failures.html",
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
      page: "operating/several-servers.html",
      query: `# The leading server, and whether scheduling is on.
query Orchestrator {
  orchestrator { role address leader_address epoch leads_since state stopped_by note }
}
`,
    },
    {
      title: "idle behind quotas",
      page: "using/people.html#quotas",
      query: `# GPUs that are free while quotas hold waiting sessions back; null when there are none.
query IdleBehindQuotas {
  idle_behind_quotas { gpus_free sessions_held_back sessions_waiting message }
}
`,
    },
    {
      title: "me",
      page: "using/people.html#users-roles-keys",
      query: `# The signed-in user.
query Me {
  me { name role projects unix_name key_id }
}
`,
    },
  ],
};
