"""Roles of the processes of measured chains, each `module:class`."""

ROLES = {
    "publisher": "thinwire_lab.live.load_roles:PublisherRole",
    "subscriber": "thinwire_lab.live.load_roles:SubscriberRole",
    "class subscriber": "thinwire_lab.live.load_roles:ClassSubscriberRole",
    "ordered subscriber": "thinwire_lab.live.dictionary_switch:OrderedSubscriberRole",
    "steady": "thinwire_lab.live.failover_roles:SteadyRole",
    "witness": "thinwire_lab.live.failover_roles:WitnessRole",
    "sweeping": "thinwire_lab.live.many_sources:SweepingRole",
    "swept": "thinwire_lab.live.many_sources:SweptRole",
    "walking": "thinwire_lab.live.tolerance_groups:WalkingRole",
    "walked": "thinwire_lab.live.tolerance_groups:WalkedRole",
    "registry": "thinwire_lab.live.service_roles:RegistryRole",
    "translator": "thinwire_lab.live.service_roles:TranslatorRole",
    "dictionaries": "thinwire_lab.live.service_roles:DictionariesRole",
    "switching": "thinwire_lab.live.dictionary_switch:SwitchingRole",
    "telling translator": "thinwire_lab.live.service_roles:TellingTranslatorRole",
    "edge host": "thinwire_lab.live.edge.edge_load:EdgeHostRole",
    "numbering": "thinwire_lab.live.kill_test:NumberingRole",
    "recording": "thinwire_lab.live.kill_test:RecordingRole",
}
