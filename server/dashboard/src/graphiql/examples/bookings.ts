import type { Group } from "../example";

export const BOOKINGS: Group = {
  name: "Bookings",
  examples: [
    {
      title: "reservations",
      page: "using/bookings.html",
      query: `# The calendar: who has booked which GPUs, and when.
query Reservations {
  reservations {
    id name kind owner project state is_active starts_at ends_at gpus nodes sessions
    devices { hostname name model }
  }
}
`,
    },
    {
      title: "calendar feed",
      page: "using/bookings.html#the-calendar",
      query: `# Makes secret addresses of your bookings for a calendar program; earlier ones stop working.
mutation CalendarFeed {
  renew_calendar_feed {
    __typename
    ... on RenewCalendarFeedSuccess { mine all }
    ... on Error { code message }
  }
}
`,
    },
  ],
};
