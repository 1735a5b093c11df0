"""Roles of the worker processes of live measurements."""

ROLES = {
    "publisher": "thinwire_lab.live.load_roles:PublisherRole",
    "subscriber": "thinwire_lab.live.load_roles:SubscriberRole",
    "class subscriber": "thinwire_lab.live.load_roles:ClassSubscriberRole",
    "ordered subscriber": "thinwire_lab.live.dictionary_switch:OrderedSubscriberRole",
    "feed publisher": "thinwire_lab.live.failover_roles:FeedPublisherRole",
    "feed subscriber": "thinwire_lab.live.failover_roles:FeedSubscriberRole",
    "many sources publisher": "thinwire_lab.live.many_sources:ManySourcesPublisherRole",
    "many sources subscriber": "thinwire_lab.live.many_sources:ManySourcesSubscriberRole",
    "walk publisher": "thinwire_lab.live.tolerance_groups:WalkPublisherRole",
    "walk subscriber": "thinwire_lab.live.tolerance_groups:WalkSubscriberRole",
    "registry": "thinwire_lab.live.service_roles:RegistryRole",
    "translator": "thinwire_lab.live.service_roles:TranslatorRole",
    "dictionaries": "thinwire_lab.live.service_roles:DictionariesRole",
    "dictionary switch": "thinwire_lab.live.dictionary_switch:DictionarySwitchRole",
    "edge host": "thinwire_lab.live.edge.edge_load:EdgeHostRole",
    "numbered publisher": "thinwire_lab.live.kill_test:NumberedPublisherRole",
    "durable subscriber": "thinwire_lab.live.kill_test:DurableSubscriberRole",
}
"""name -> `module:class`"""
